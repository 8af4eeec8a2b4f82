// All views, in the order of the navigation. Each module exports a list of them.
//
// Keys after g: o overview, q queues, t topics, e exchanges, r route tester, l rules, c connections, u users, k locks.
import { overviewViews } from './overview.js';

export const views = [
  ...overviewViews,
];
