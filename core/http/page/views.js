// All views, in the order of the navigation. Each module exports a list of them.
//
// Keys after g: o overview, q queues, t topics, e exchanges, r route tester, l rules, c connections, u users, k locks.
import { overviewViews } from './overview.js';
import { queueViews } from './queues.js';
import { topicViews } from './topics.js';
import { exchangeViews } from './exchanges.js';
import { testerViews } from './tester.js';
import { rulesViews } from './rules.js';
import { connectionViews } from './connections.js';
import { userViews } from './users.js';
import { lockViews } from './locks.js';

export const views = [
  ...overviewViews,
  ...queueViews,
  ...topicViews,
  ...exchangeViews,
  ...testerViews,
  ...rulesViews,
  ...connectionViews,
  ...userViews,
  ...lockViews,
];
