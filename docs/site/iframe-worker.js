// SPDX-License-Identifier: GPL-3.0-or-later
// Browsers start no worker from a file:, and the search of the site runs in one. A page that was
// opened from a disk runs it in a hidden frame instead. (The name is the one that the theme asks
// for before it fetches such a script from the web.)
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const inside = `
        self.postMessage = data =>
          self.dispatchEvent(new CustomEvent("answer", { detail: data }));
        self.importScripts = () => Promise.resolve();`;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      this.frame.srcdoc =
        `<script>${inside}</scr` + `ipt><script src="${new URL(url, location.href)}"></scr` + `ipt>`;
      this.loaded = new Promise(resolve => this.frame.addEventListener("load", resolve));
      document.body.append(this.frame);
      this.loaded.then(() =>
        this.frame.contentWindow.addEventListener("answer", event =>
          this.dispatchEvent(new MessageEvent("message", { data: event.detail }))
        )
      );
    }

    postMessage(data) {
      this.loaded.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
