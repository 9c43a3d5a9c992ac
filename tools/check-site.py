#!/usr/bin/env python3
"""Checks the site in .build/site.

    tools/check-site.py [FOLDER] [--pictures FOLDER]

Over the files: every link and anchor leads somewhere inside the site, and nothing is loaded from elsewhere. In
headless Chromium, spoken to through a pipe: no page writes an error to the console, fails to load something, or scrolls
sideways at the width of a phone, and the search finds pages. Without Chromium the second part is skipped by name.
"""
import argparse
import functools
import html.parser
import http.server
import json
import os
import sys
import tempfile
import threading
import urllib.parse

sys.dont_write_bytecode = True
from browser import DESKTOP, PHONE, Browser, find_browser  # noqa: E402

PICTURES = ["index.html", "reference/par_control.html", "reference/index.html", "articles/regatta.html",
            "articles/docs-comparison.html"]
# What the search is asked, and a page that must be among what it finds.
SEARCHES = {"timeout": "reference/par_control.html", "shared memory": "reference/shm_share.html",
            "colSums": "reference/h5_stats.html"}


class Page(html.parser.HTMLParser):
    """The ids of a page, what it links to and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = {"", "top"}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for key in ("id", "name"):
            if attributes.get(key):
                self.ids.add(attributes[key])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag in ("script", "img", "iframe") and attributes.get("src"):
            self.loads.append(attributes["src"])
        if tag == "link" and attributes.get("href"):
            self.loads.append(attributes["href"])


def read_pages(site):
    pages = {}
    for folder, _, files in os.walk(site):
        for name in sorted(files):
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    pages[os.path.relpath(path, site)] = Page(file.read())
    return dict(sorted(pages.items()))


def broken_links(site, pages):
    """Links that lead nowhere inside of the site, and what is loaded from outside of it."""
    out = []
    for name, page in pages.items():
        for url in page.links + page.loads:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if url in page.loads or parts.scheme == "file":
                    out.append(f"{name}: needs {url}")
                continue
            path = urllib.parse.unquote(parts.path)
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if os.path.isdir(os.path.join(site, target)):
                target = os.path.join(target, "index.html")
            if not os.path.isfile(os.path.join(site, target)):
                out.append(f"{name}: {url} is not there")
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                    out.append(f"{name}: {url} has no such heading")
    return sorted(set(out))


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check_page(browser, base, name):
    """Complaints about one page, at the width of a desktop and of a phone."""
    out = []
    browser.resize(DESKTOP)
    out += browser.open(base + name)
    browser.resize(PHONE)
    width = browser.evaluate("document.documentElement.scrollWidth")
    if width > PHONE[0]:
        widest = browser.evaluate("""[...document.querySelectorAll("body *")].filter(
            x => x.getBoundingClientRect().right > innerWidth + 1 && !x.closest("pre, .table-box"))
            .slice(0, 3).map(x => x.outerHTML.slice(0, 120)).join(" | ")""")
        out.append(f"is {width} pixels wide on a phone of {PHONE[0]}: {widest}")
    return [f"{name}: {text}" for text in out]


def search(browser, base, page, query):
    """What the search box of `page` lists for a query, as addresses relative to the site."""
    browser.open(base + page)
    return browser.evaluate(f"""(async () => {{
        const input = document.getElementById("search-input");
        input.focus();
        input.value = {json.dumps(query)};
        input.dispatchEvent(new Event("input"));
        const box = document.getElementById("search-results");
        for (let i = 0; i < 500 && box.children.length === 0; i++) await new Promise(done => setTimeout(done, 20));
        return [...box.querySelectorAll("a")].map(link => link.href);
    }})()""")


def check_searches(browser, base):
    out = []
    browser.resize(DESKTOP)
    # The index is found from the root and from a folder.
    for page in ("index.html", "reference/index.html"):
        for query, wanted in SEARCHES.items():
            found = search(browser, base, page, query)
            if not any(url.startswith(base + wanted) for url in found):
                out.append(f"{page}: a search for \"{query}\" finds {found[:5]}, not {wanted}")
    found = search(browser, base, "index.html", "xyzzy no such word")
    if found:
        out.append(f"a search for nonsense finds {found}")
    return out


def take_pictures(browser, base, folder):
    os.makedirs(folder, exist_ok=True)
    for name in PICTURES:
        for label, size in (("desktop", DESKTOP), ("phone", PHONE)):
            browser.resize(size)
            browser.open(base + name)
            browser.picture(os.path.join(folder, name.replace("/", "-").replace(".html", f"-{label}.png")))


def check_in_browser(program, site, pages, pictures):
    handler = functools.partial(QuietHandler, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            out = [text for name in pages for text in check_page(browser, base, name)]
            out += check_searches(browser, base)
            if pictures:
                take_pictures(browser, base, pictures)
        finally:
            browser.close()
            server.shutdown()
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("site", nargs="?", default=".build/site")
    arguments.add_argument("--pictures", help="folder for pictures of some pages, to be looked at")
    arguments = arguments.parse_args()
    if not os.path.isfile(os.path.join(arguments.site, "index.html")):
        sys.exit(f"site: there is none in {arguments.site}: run `make site`")
    pages = read_pages(arguments.site)
    faults = broken_links(arguments.site, pages)
    print(f"site: links of {len(pages)} pages: {len(faults)} faults")
    program = find_browser()
    if program:
        seen = check_in_browser(program, arguments.site, pages, arguments.pictures)
        print(f"site: {len(pages)} pages in {program}: {len(seen)} faults")
        faults += seen
    else:
        print("site: skipped: pages in a browser, for lack of chromium")
    for fault in faults:
        print("  " + fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
