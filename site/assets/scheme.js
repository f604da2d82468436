"use strict";
// Applied before the first paint, so that a chosen scheme does not flash.
try {
  const chosen = localStorage.getItem("scheme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.scheme = chosen;
} catch { /* storage may be refused; the system's scheme is used */ }
