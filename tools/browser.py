"""Headless Chromium, spoken to through a pipe: for check-site.py and browse.py."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time

PHONE = (390, 844)
DESKTOP = (1280, 900)


def find_browser():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """Headless Chromium, driven by its protocol over two pipes: descriptor 3 to it, 4 from it."""

    def __init__(self, program, profile, seconds=60.0):
        self.seconds = seconds
        to_browser, self.send_end = os.pipe()
        self.receive_end, from_browser = os.pipe()

        def descriptors():
            # Copies above 4 first: a pipe of ours may have number 3 or 4 itself.
            to_copy, from_copy = os.dup(to_browser), os.dup(from_browser)
            os.dup2(to_copy, 3)
            os.dup2(from_copy, 4)

        # A sandbox needs rights that root's processes in a container do not have; all pages are our own.
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=descriptors, close_fds=False, start_new_session=True,
            env=dict(os.environ, HOME=profile, TMPDIR=profile, XDG_CONFIG_HOME=profile, XDG_CACHE_HOME=profile),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.count, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        end = time.monotonic() + self.seconds
        while b"\0" not in self.buffer:
            if not select.select([self.receive_end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no message of the browser in {self.seconds:g} s")
            data = os.read(self.receive_end, 1 << 20)
            if not data:
                raise EOFError("the browser has ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.count += 1
        request = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.send_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        """Loads a page and returns what the browser complained of while it did."""
        self.events = []
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        self.evaluate("new Promise(done => setTimeout(done, 0))")
        return [text for text in map(self.complaint, self.events) if text]

    @staticmethod
    def complaint(event):
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            return "exception: " + json.dumps(what["exceptionDetails"].get("text", ""))
        if method == "Runtime.consoleAPICalled" and what["type"] in ("error", "assert"):
            return "console: " + json.dumps([part.get("value") for part in what["args"]])
        if method == "Log.entryAdded" and what["entry"]["level"] == "error":
            return "console: " + what["entry"]["text"] + " " + what["entry"].get("url", "")
        if method == "Network.loadingFailed" and not what.get("canceled"):
            return "not loaded: " + what["errorText"]
        return None

    def evaluate(self, expression):
        got = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(json.dumps(got["exceptionDetails"]))
        return got["result"].get("value")

    def resize(self, size):
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1,
                  mobile=size == PHONE)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        # Its helpers would write to the profile while that is removed.
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            time.sleep(0.01)
        os.close(self.send_end)
        os.close(self.receive_end)
