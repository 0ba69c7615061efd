// Opened from a disk a page may start no worker, so the search runs in a hidden frame instead.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = () => done(inside);
        inside.document.body.append(script);
      });
    }
    async postMessage(data) {
      const inside = await this.ready;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
  };
