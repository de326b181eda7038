// SPDX-License-Identifier: GPL-3.0-or-later
// What the theme leaves out: a name for its search, and a wide table that a keyboard can scroll.
"use strict";

document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
// The theme wraps tables when it has started, after this script.
new MutationObserver(() => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
