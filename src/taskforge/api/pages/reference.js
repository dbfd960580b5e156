// The reference works without this: it adds a search, buttons that copy, and the address of this server.
"use strict";

const named = (tag, name, text = "") => {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
};

// --- The address ---

const base = location.origin + location.pathname.replace(/\/api\/v1\/docs\/?$/, "");
for (const code of document.querySelectorAll("pre code"))
  for (const node of [...code.childNodes].filter((one) => one.nodeType === Node.TEXT_NODE))
    node.data = node.data.replace(/http:\/\/127\.0\.0\.1:8080(?= |$)/gm, base);

// --- Copy ---

const copyText = async (text) => {
  if (navigator.clipboard !== undefined && isSecureContext) return navigator.clipboard.writeText(text);
  // over plain HTTP there is no clipboard: a field that nobody sees is copied from instead
  const field = named("textarea", "skip");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
};
for (const figure of document.querySelectorAll("figure")) {
  const button = named("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy: ${figure.querySelector("figcaption").textContent}`);
  button.addEventListener("click", async () => {
    await copyText(figure.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  figure.querySelector("figcaption").append(button);
}

// --- Search ---

const tree = document.querySelector(".tree");
const field = named("input", "find");
field.type = "search";
field.placeholder = "/  search";
field.setAttribute("aria-label", "Search operations and schemas");
const nothing = named("p", "nothing", "Nothing is called so.");
nothing.hidden = true;
tree.prepend(field, nothing);
const blocks = [...tree.querySelectorAll("details")].map((block) => ({
  block,
  wasOpen: block.open,
  rows: [...block.querySelectorAll("li")].map((row) => {
    const target = document.getElementById(row.querySelector("a").hash.slice(1));
    const route = target?.querySelector(".route code")?.textContent ?? "";
    return { row, text: `${row.textContent} ${route}`.toLowerCase() };
  }),
}));
const find = () => {
  const words = field.value.toLowerCase().split(/\s+/).filter((one) => one !== "");
  let any = false;
  for (const { block, wasOpen, rows } of blocks) {
    let some = false;
    for (const { row, text } of rows) {
      row.hidden = !words.every((one) => text.includes(one));
      some ||= !row.hidden;
    }
    block.hidden = !some;
    block.open = words.length > 0 ? some : wasOpen;
    any ||= some;
  }
  nothing.hidden = any;
};
field.addEventListener("input", find);
field.addEventListener("keydown", (event) => {
  if (event.key === "Enter") tree.querySelector("li:not([hidden]) a")?.click();
  if (event.key === "Escape") {
    field.value = "";
    find();
    field.blur();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target === field) return;
  event.preventDefault();
  field.focus();
});
