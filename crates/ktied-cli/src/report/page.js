// The script of a report: says values under the mouse and the arrow keys, hides runs, changes axes.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);

  // Runs that a reader has hidden.
  const hidden = new Set();
  const boxes = document.querySelectorAll("input[data-shows]");
  const show = (box) => {
    const tag = box.dataset.shows;
    if (box.checked) hidden.delete(tag); else hidden.add(tag);
    for (const part of document.querySelectorAll(`[data-tag="${tag}"]`)) part.classList.toggle("off", !box.checked);
  };
  for (const box of boxes) {
    box.addEventListener("change", () => show(box));
    show(box);
  }

  const say = (value) => {
    if (value === null || value === undefined) return "not finite";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e-4 && size < 1e7 ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : value.toExponential(3);
    return text.replace("-", "−");
  };

  // Where along an axis a value is, from 0 to 1.
  const axis = (text) => {
    const [scale, low, high] = text.split(" ");
    return (value) => ((scale === "log" ? Math.log10(value) : value) - low) / (high - low);
  };

  // The index of the x that is nearest.
  const nearest = (xs, x, place) => {
    let best = 0;
    for (let i = 1; i < xs.length; i++) {
      if (Math.abs(place(xs[i]) - place(x)) < Math.abs(place(xs[best]) - place(x))) best = i;
    }
    return best;
  };

  const element = (name, words, parent) => {
    const made = document.createElement(name);
    if (words) made.textContent = words;
    parent.append(made);
    return made;
  };

  class Plot {
    constructor(frame) {
      this.frame = frame;
      this.of = data.plots[frame.dataset.plotId];
      this.tip = frame.querySelector(".tip");
      this.said = frame.querySelector(".said");
      this.x = null;
      frame.addEventListener("pointermove", (event) => this.point(event));
      frame.addEventListener("pointerdown", (event) => this.point(event));
      frame.addEventListener("pointerleave", () => { if (document.activeElement !== frame) this.leave(); });
      frame.addEventListener("keydown", (event) => this.key(event));
      frame.addEventListener("blur", () => this.leave());
    }

    // The picture that is seen now: with a linear axis, or a logarithmic one.
    picture() {
      const all = [...this.frame.querySelectorAll(".linear > svg, .log > svg")];
      const svg = all.find((svg) => svg.getClientRects().length > 0) || all[0];
      const group = svg.querySelector("g[data-plot]");
      const [left, top, width, height] = group.dataset.plot.split(" ").map(Number);
      return { svg, left, top, width, height, place: axis(group.dataset.x) };
    }

    lines() {
      return this.of.lines.filter((line) => !hidden.has(`run-${line.run}`));
    }

    point(event) {
      const { svg, left, width, place } = this.picture();
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const fraction = ((event.clientX - matrix.e) / matrix.a - left) / width;
      let best = null;
      for (const line of this.lines()) {
        for (const x of line.x) {
          if (best === null || Math.abs(place(x) - fraction) < Math.abs(place(best) - fraction)) best = x;
        }
      }
      if (best !== null) this.tell(best, false);
    }

    key(event) {
      const xs = [...new Set(this.lines().flatMap((line) => line.x))].sort((a, b) => a - b);
      if (xs.length === 0) return;
      const at = this.x === null ? -1 : xs.indexOf(this.x);
      const page = Math.max(1, Math.round(xs.length / 10));
      const go = {
        ArrowRight: at + 1, ArrowLeft: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: xs.length - 1,
      };
      if (event.key === "Escape") {
        this.leave();
      } else if (event.key in go) {
        event.preventDefault();
        this.tell(xs[Math.min(xs.length - 1, Math.max(0, go[event.key]))], true);
      }
    }

    tell(x, aloud) {
      this.x = x;
      const { svg, left, top, width, height, place } = this.picture();
      this.tip.replaceChildren();
      element("strong", `${this.of.x} ${say(x)}`, this.tip);
      const words = [`${this.of.x} ${say(x)}`];
      for (const line of this.lines()) {
        if (line.x.length === 0) continue;
        const at = nearest(line.x, x, place);
        const name = line.what ? `${data.runs[line.run]}, ${line.what}` : data.runs[line.run];
        const where = line.x[at] === x ? "" : ` (at ${say(line.x[at])})`;
        const row = element("span", "", this.tip);
        element("bdi", name + where, row);
        element("b", say(line.y[at]), row);
        words.push(`${name}${where}: ${say(line.y[at])}`);
      }
      this.tip.hidden = false;
      this.cross(svg, left + place(x) * width, top, height);
      this.move(svg, left + place(x) * width);
      if (aloud) this.said.textContent = words.join("; ");
    }

    cross(svg, x, top, height) {
      let line = svg.querySelector(".cross");
      if (!line) {
        line = document.createElementNS(svg.namespaceURI, "path");
        line.setAttribute("class", "cross");
        svg.append(line);
      }
      line.setAttribute("d", `M${x} ${top}v${height}`);
    }

    // On the side of the cross where there is room.
    move(svg, x) {
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const at = x * scale;
      const room = this.frame.clientWidth - this.tip.offsetWidth;
      const [right, left] = [at + 12, at - 12 - this.tip.offsetWidth];
      const wanted = right <= room ? right : left >= 0 ? left : at < this.frame.clientWidth / 2 ? room : 0;
      this.tip.style.left = `${Math.max(0, wanted)}px`;
    }

    leave() {
      this.x = null;
      this.tip.hidden = true;
      this.said.textContent = "";
      for (const line of this.frame.querySelectorAll(".cross")) line.remove();
    }
  }

  for (const frame of document.querySelectorAll(".frame")) new Plot(frame);

  // A printer shows what a reader could unfold.
  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details:not([open])")) {
      part.open = true;
      opened.push(part);
    }
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened.splice(0)) part.open = false;
  });
})();
