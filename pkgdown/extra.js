// The search, the list of headings and the buttons that copy code: what pkgdown has from other servers.
"use strict";

// The headings of a page, as links beside it.
function fillContents() {
  const nav = document.getElementById("toc");
  if (!nav) return;
  const headings = document.querySelectorAll("main h2, main h3");
  const list = document.createElement("ul");
  list.className = "nav flex-column";
  for (const heading of headings) {
    const id = heading.id || (heading.closest("[id]") || {}).id;
    if (!id || id === "main") continue;
    const link = document.createElement("a");
    link.className = "nav-link" + (heading.tagName === "H3" ? " ps-4" : "");
    link.href = "#" + id;
    const copy = heading.cloneNode(true);
    for (const anchor of copy.querySelectorAll("a.anchor")) anchor.remove();
    link.textContent = copy.textContent.trim();
    const item = document.createElement("li");
    item.append(link);
    list.append(item);
  }
  if (list.children.length > 0) nav.append(list);
}

function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const box of document.querySelectorAll("div.sourceCode")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-code";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      // Lines of output are no code.
      const code = box.querySelector("pre").textContent.replace(/^#>.*\n?/gm, "");
      await navigator.clipboard.writeText(code);
      button.textContent = "copied";
    });
    box.prepend(button);
  }
}

// Sections that have all words of the query, best first and at most three of a page. A word counts most in a title,
// then in a heading; pages for those who change the package come after those for users.
function findSections(sections, query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  if (words.length === 0) return [];
  const found = [];
  for (const section of sections) {
    const fields = [[section.title, 8], [section.what, 6], [section.text, 2], [section.code, 1]];
    const scores = words.map((word) => fields.reduce(
      (sum, [text, weight]) => sum + (String(text).toLowerCase().includes(word) ? weight : 0), 0));
    if (scores.some((score) => score === 0)) continue;
    const inside = /^\/articles\/(docs|bench)-/.test(section.path) ? 0.4 : 1;
    found.push({ section, score: inside * scores.reduce((sum, score) => sum + score, 0) });
  }
  found.sort((a, b) => b.score - a.score);
  const perPage = new Map();
  return found.map((entry) => entry.section).filter((section) => {
    const count = (perPage.get(section.path) || 0) + 1;
    perPage.set(section.path, count);
    return count <= 3;
  }).slice(0, 20);
}

function startSearch() {
  const input = document.getElementById("search-input");
  if (!input) return;
  const index = new URL(input.dataset.searchIndex, document.baseURI);
  const box = document.createElement("div");
  box.id = "search-results";
  input.after(box);
  let sections = null;
  const load = async () => {
    if (!sections) sections = fetch(index).then((response) => response.json());
    return sections;
  };
  const show = async () => {
    const query = input.value;
    const found = query.trim().length < 2 ? [] : findSections(await load(), query);
    if (query !== input.value) return;
    box.replaceChildren(...found.map((section) => {
      const link = document.createElement("a");
      const where = new URL("." + section.path, index);
      if (section.id) where.hash = section.id;
      link.href = where;
      link.textContent = section.title;
      const small = document.createElement("small");
      small.textContent = section.what === section.title ? section.dir : section.what;
      link.append(small);
      return link;
    }));
    if (found.length === 0 && query.trim().length > 1) {
      const none = document.createElement("p");
      none.textContent = "Nothing found for all of these words.";
      box.replaceChildren(none);
    }
  };
  const step = (by) => {
    const links = [...box.querySelectorAll("a")];
    const at = links.findIndex((link) => link.classList.contains("chosen"));
    if (at >= 0) links[at].classList.remove("chosen");
    const next = links[(at + by + links.length + (at < 0 && by < 0 ? 1 : 0)) % links.length];
    if (next) next.classList.add("chosen");
  };
  input.addEventListener("focus", load);
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const link = box.querySelector("a.chosen") || box.querySelector("a");
      if (link) window.location.href = link.href;
    } else if (event.key === "Escape") {
      box.replaceChildren();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("form[role=search]")) box.replaceChildren();
  });
}

fillContents();
addCopyButtons();
startSearch();
