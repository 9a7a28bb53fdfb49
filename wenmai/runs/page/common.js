"use strict"; // common to both pages; Python puts it before the page's own script
const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const clip = (text, length) => ([...text].length > length ? [...text].slice(0, length - 1).join("") + "…" : text);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const data = JSON.parse(byId("data").textContent);

// Texts in the language of the page: a template after "say" is looked up with a number for each value
const WORDS = {}; // WORDS
const say = (parts, ...holes) => {
  const english = parts.reduce((text, part, place) => `${text}{${place - 1}}${part}`);
  return (WORDS[english] || english).replace(/\{(\d)\}/g, (_, place) => holes[place]);
};

// Words reach the page only as text nodes and attribute values, never as markup.
const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// The tip that follows the pointer
const tip = byId("tip");
const hideTip = () => {
  tip.hidden = true;
};
const showTip = (x, y, ...children) => {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const left = x + 18 + tip.offsetWidth > innerWidth ? x - 18 - tip.offsetWidth : x + 18;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${clamp(y - tip.offsetHeight / 2, 4, Math.max(4, innerHeight - tip.offsetHeight - 4))}px`;
};
addEventListener("scroll", hideTip, { passive: true, capture: true });

// Arrow keys: [rows, columns] of a step, or undefined
const arrowStep = (event) =>
  ({ ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] })[event.key];
