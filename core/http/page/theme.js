// Light or dark: what the user chose here, or else what the system says.
//
// It is no module: it runs before the first paint, so that a dark page does not flash white.
'use strict';

(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem('tidemq.theme');
  } catch {
    // Storage may be forbidden; the system's choice holds then.
  }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
