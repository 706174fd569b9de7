"use strict";
(() => {
  const models = JSON.parse(document.getElementById("mixes").textContent);
  const area = document.getElementById("slider");
  const longest = models.reduce((best, mixes) => (mixes.length > best.length ? mixes : best), []);
  if (!area || longest.length < 2) return;
  const slider = document.getElementById("radius");
  const said = document.getElementById("radius-words");
  const panels = [...document.querySelectorAll(".live")];

  const element = (tag, text, properties) => {
    const made = Object.assign(document.createElement(tag), properties);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const bar = (row) => {
    const track = element("span", undefined, { className: "track" });
    for (const [kind, width] of [["after", row[6]], ["before", row[5]]]) {
      const part = element("span", undefined, { className: kind });
      part.style.width = `${width}%`;
      track.append(part);
    }
    const cell = element("td", undefined, { className: "wide" });
    cell.append(track, element("span", row[2], { className: "shares" }));
    return cell;
  };

  const line = (row) => {
    const made = element("tr");
    const label = element("th", undefined, { scope: "row" });
    label.append(element("bdi", row[0], { className: "name", title: row[0] }));
    made.append(label, bar(row));
    for (const text of [row[1], row[3], row[4]]) made.append(element("td", text, { className: "number" }));
    return made;
  };

  const fill = (panel, mix) => {
    panel.hidden = !mix;
    if (!mix) return;
    const words = element("p", `${mix.words}: `);
    words.append(element("strong", mix.value), element("span", ` (${mix.interval})`, { className: "faint" }));
    const table = element("table", undefined, { className: "mix" });
    const head = panel.parentElement.querySelector(".cards thead").cloneNode(true);
    const body = element("tbody");
    body.append(...mix.rows.map(line));
    table.append(head, body);
    panel.replaceChildren(element("h4", mix.radius), words, table);
  };

  const show = (index) => {
    const mix = longest[index];
    slider.value = index;
    said.textContent = `${mix.radius}: ${mix.words}`;
    slider.setAttribute("aria-valuetext", said.textContent);
    for (const panel of panels) {
      fill(panel, models[Number(panel.dataset.model)].find((other) => other.radius === mix.radius));
    }
  };

  const wanted = Number((location.hash.match(/^#mix=(\d+)$/) || [])[1] ?? Math.floor((longest.length - 1) / 2));
  slider.max = longest.length - 1;
  slider.addEventListener("input", () => show(Number(slider.value)));
  area.hidden = false;
  show(Math.min(wanted, longest.length - 1));
})();
