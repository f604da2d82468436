"use strict";
(() => {
  // Filter of a list: hides rows without the words, says how many are left.
  for (const filter of document.querySelectorAll("[data-filter]")) {
    const rows = [...document.getElementById(filter.dataset.filter).querySelectorAll("[data-text]")];
    const count = document.querySelector("[data-filter-count]");
    const input = filter.querySelector("input");
    const pick = filter.querySelector("select");
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const fits = words.every((word) => row.dataset.text.includes(word)) && (!pick || !pick.value || row.dataset.kind === pick.value);
        row.hidden = !fits;
        if (fits) left++;
      }
      if (count) count.textContent = left + " of " + rows.length + " shown";
    };
    filter.hidden = false;
    input.addEventListener("input", apply);
    if (pick) pick.addEventListener("change", apply);
  }
})();
