#!/usr/bin/env python3
"""Opens an address in headless Chromium and does there what a script says.

    tools/browse.py URL [--picture FILE.png] [--seconds N] < SCRIPT

SCRIPT is the body of an asynchronous function in JavaScript. What it returns is printed as JSON, and what the browser
complained of while the page was loaded goes to standard error.
"""
import argparse
import json
import sys
import tempfile

sys.dont_write_bytecode = True
from browser import DESKTOP, Browser, find_browser  # noqa: E402


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("url")
    arguments.add_argument("--picture", help="where a picture of the page goes when the script is over")
    arguments.add_argument("--seconds", type=float, default=60.0, help="how long any step may take")
    arguments = arguments.parse_args()
    program = find_browser()
    if not program:
        sys.exit("browse: there is no chromium")
    script = sys.stdin.read()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile, arguments.seconds)
        try:
            browser.resize(DESKTOP)
            for text in browser.open(arguments.url):
                print(text, file=sys.stderr)
            print(json.dumps(browser.evaluate(f"(async () => {{{script}}})()")))
            if arguments.picture:
                browser.picture(arguments.picture)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
