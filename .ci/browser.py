"""Looks at a page of `ktied report` with a real browser, as a reader would: with a mouse, with a keyboard, in the dark, on a
phone, on paper. Speaks WebDriver to chromedriver with nothing but Python's own library.

Usage: browser.py PAGE HOSTILE_PAGE PICTURES
"""

import base64
import json
import math
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

TAB, SPACE, ESCAPE, RIGHT, LEFT, HOME, END = "\ue004", " ", "\ue00c", "\ue014", "\ue012", "\ue011", "\ue010"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """A session of chromedriver."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.base = f"http://127.0.0.1:{port}"
        self.wait_for_driver()
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        reply = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{reply['sessionId']}"
        self.scripts = True

    def allow_scripts(self, allowed):
        self.cdp("Emulation.setScriptExecutionDisabled", value=not allowed)
        self.scripts = allowed

    def wait_for_driver(self):
        for _ in range(100):
            try:
                self.call("GET", "/status")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("chromedriver does not answer")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()[:800]}") from None

    def of(self, method, path, body=None):
        return self.call(method, self.session + path, body)

    def open(self, page):
        self.of("POST", "/url", {"url": pathlib.Path(page).resolve().as_uri()})

    def run(self, script, *arguments):
        return self.of("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def cdp(self, command, **parameters):
        return self.of("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.of("POST", "/se/log", {"type": kind})

    def find(self, selector):
        return self.of("POST", "/element", {"using": "css selector", "value": selector})

    def act(self, source):
        self.of("POST", "/actions", {"actions": [source]})

    def settle(self, element):
        """Brings the element into the window, and waits until it stands still where a mouse would meet it, a few frames later."""
        script = """
            const [element, done] = arguments;
            element.scrollIntoView({block: "nearest", behavior: "instant"});
            let last = null;
            const look = (left) => {
                const box = element.getBoundingClientRect(), place = JSON.stringify(box);
                const met = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
                const reached = met !== null && (element.contains(met) || met.contains(element));
                if ((reached && place === last) || left === 0) return done(reached);
                last = place;
                requestAnimationFrame(() => requestAnimationFrame(() => look(left - 1)));
            };
            look(100);"""
        if self.scripts and not self.of("POST", "/execute/async", {"script": script, "args": [element]}):
            raise AssertionError("the mouse cannot reach an element")

    def move(self, element, x=0, y=0):
        """Moves the mouse to so many pixels from an element's middle."""
        self.settle(element)
        moves = [{"type": "pointerMove", "duration": 0, "origin": element, "x": x + d, "y": y} for d in (1, 0)]
        self.act({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves})

    def click(self, element):
        self.settle(element)
        down_up = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        move = {"type": "pointerMove", "duration": 0, "origin": element, "x": 0, "y": 0}
        self.act(
            {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move, *down_up]}
        )

    def press(self, *keys):
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.act({"type": "key", "id": "keyboard", "actions": strokes})

    def photograph(self, path):
        width, height = self.run("return [document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def quit(self):
        try:
            self.of("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)


def eventually(ask, wanted=bool):
    """What `ask` answers, as soon as it is what is wanted; a page may take a moment to do what it was told."""
    until = time.monotonic() + 5
    while not wanted(answer := ask()) and time.monotonic() < until:
        time.sleep(0.02)
    return answer


def check(condition, what):
    if not condition:
        raise AssertionError(what)
    print(f"  ok: {what}")


def scroll_to(browser, selector):
    browser.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", selector)


def tip(browser, selector):
    return browser.run("const tip = document.querySelector(arguments[0] + ' .tip');"
                       "return tip.hidden || tip.getClientRects().length === 0 ? null : tip.innerText", selector)


def is_seen(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).getClientRects().length > 0", selector)


def asks_for_nothing(browser, page):
    """No message of the console, and no request but for the page itself."""
    messages = [entry["message"] for entry in browser.log("browser")]
    check(not messages, f"the console is silent {messages}")
    events = [json.loads(entry["message"])["message"] for entry in browser.log("performance")]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    own = pathlib.Path(page).resolve().as_uri()
    others = [url[:80] for url in urls if url != own and not url.startswith("data:")]
    check(own in urls and not others, f"nothing is requested but the page {others}")


def tips_by_mouse(browser, plot):
    scroll_to(browser, plot)
    frame = browser.find(f"{plot} .frame")
    check(tip(browser, plot) is None, "no tip before the mouse comes")
    browser.move(frame, -40)
    first = eventually(lambda: tip(browser, plot))
    check(first and "step" in first, f"a tip under the mouse: {first!r}")
    browser.move(frame, 60)
    second = eventually(lambda: tip(browser, plot), lambda told: told and told != first)
    check(second and second != first, "another place, another tip")
    # The number in the tip is the one in the data whose x is the tip's.
    found = browser.run("""
        const [plot] = arguments, id = plot.slice(1);
        const data = JSON.parse(document.getElementById("data").textContent);
        const x = Number(document.querySelector(plot + " .tip strong").textContent.replace(/[^0-9.]/g, ""));
        const line = data.plots[id].lines.find((line) => line.x.includes(x));
        return [line.y[line.x.indexOf(x)], [...document.querySelectorAll(plot + " .tip b")].map((b) => b.textContent)]""",
                        plot)
    told = [float(text.replace("−", "-").replace(",", "")) for text in found[1] if text != "not finite"]
    check(any(math.isclose(found[0], value, rel_tol=1e-4) for value in told), f"the tip tells the data: {found}")
    cross = browser.run("return document.querySelectorAll(arguments[0] + ' .cross').length", plot)
    check(cross == 1, "a line shows where")
    browser.move(browser.find("h1"))
    check(eventually(lambda: tip(browser, plot) is None), "the tip goes with the mouse")


def tips_by_keyboard(browser, plot):
    browser.run("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    for _ in range(200):
        browser.press(TAB)
        if browser.run("return document.activeElement.closest(arguments[0]) !== null "
                       "&& document.activeElement.classList.contains('frame')", plot):
            break
    else:
        raise AssertionError("the tabulator key never reaches the plot")
    browser.press(RIGHT)
    first = eventually(lambda: tip(browser, plot))
    said = browser.run("return document.querySelector(arguments[0] + ' .said').textContent", plot)
    check(first and said and "step" in said, f"an arrow key shows and says a value: {said[:90]!r}")
    browser.press(RIGHT)
    check(eventually(lambda: tip(browser, plot) not in (None, first)), "the next arrow the next value")
    browser.press(LEFT)
    check(eventually(lambda: tip(browser, plot) == first), "and back")
    browser.press(END)
    check(eventually(lambda: tip(browser, plot) != first), "the end key goes to the end")
    browser.press(HOME)
    check(eventually(lambda: tip(browser, plot) == first), "the home key to the beginning")
    browser.press(ESCAPE)
    check(eventually(lambda: tip(browser, plot) is None), "escape puts it away")


def runs_are_toggled(browser, plot):
    part = f"{plot} .linear [data-tag='run-1']"
    check(is_seen(browser, part), "the second run is there")
    browser.run("scrollTo({top: 0, behavior: 'instant'})")
    box = browser.find("#show-run-1")
    browser.click(box)
    check(eventually(lambda: not is_seen(browser, part)), "a click hides it")
    names = browser.run("return JSON.parse(document.getElementById('data').textContent).runs")
    scroll_to(browser, plot)
    browser.move(browser.find(f"{plot} .frame"), 10)
    told = eventually(lambda: tip(browser, plot))
    check(told and names[1] + "," not in told and names[0] in told, "tips leave it out")
    browser.run("document.getElementById('show-run-1').focus()")
    browser.press(SPACE)
    check(eventually(lambda: is_seen(browser, part)), "the space key brings it back")


def axes_are_toggled(browser, plot):
    scroll_to(browser, plot)
    box = browser.find(f"{plot} .log-axis")
    browser.click(box)
    seen = lambda: [is_seen(browser, f"{plot} {which}") for which in (".linear", ".log")]
    check(eventually(lambda: seen() == [False, True]), "a click makes the axis logarithmic")
    browser.move(browser.find(f"{plot} .frame"), 20)
    check(eventually(lambda: tip(browser, plot)), "tips work there too")
    browser.run("document.querySelector(arguments[0] + ' .log-axis').focus()", plot)
    browser.press(SPACE)
    check(eventually(lambda: is_seen(browser, f"{plot} .linear")), "the space key makes it linear again")


def is_accessible(browser):
    """What a screen reader needs: names, labels, headers, alternatives."""
    for selector, wanted in [("img:not([alt])", "every image has words"),
                             ("th:not([scope])", "every header of a table says of what"),
                             ("table:not(:has(caption))", "every table has a caption"),
                             (".frame:not([aria-label])", "every plot has a name"),
                             (".linear > svg:not([aria-label])", "every picture has words"),
                             ("input:not(label input)", "every box has a label"),
                             ("[style]", "no style that the policy would refuse")]:
        found = browser.run("return [...document.querySelectorAll(arguments[0])].slice(0, 3).map((e) => e.outerHTML)"
                            ".map((h) => h.slice(0, 120)).filter((h) => !h.includes('left:'))", selector)
        check(not found, f"{wanted} {found}")
    headings = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
    check(headings[0] == 1 and all(b - a <= 1 for a, b in zip(headings, headings[1:])), "headings leave no level out")
    nodes = browser.cdp("Accessibility.getFullAXTree")["nodes"]
    role = lambda node: node.get("role", {}).get("value")
    unnamed = [role(node) for node in nodes if role(node) in ("checkbox", "link", "image", "region", "table")
               and not node.get("ignored") and not node.get("name", {}).get("value")]
    check(not unnamed, f"nothing that a screen reader meets is without a name {unnamed[:5]}")


def photographs(browser, pictures, stem):
    def scheme(value):
        browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def size(width, height, mobile):
        browser.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    grounds = {}
    for value in ("light", "dark"):
        scheme(value)
        for name, width, height, mobile in (("desk", 1280, 900, False), ("phone", 390, 844, True)):
            size(width, height, mobile)
            time.sleep(0.2)
            grounds[value] = browser.run("return getComputedStyle(document.body).backgroundColor")
            wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
            check(wide[0] <= width, f"{value}, {name}: nothing sticks out to the side {wide}")
            browser.photograph(pictures / f"{stem}-{name}-{value}.png")
    check(grounds["light"] != grounds["dark"], f"light and dark differ: {grounds}")
    scheme("light")
    browser.cdp("Emulation.clearDeviceMetricsOverride")
    paper = base64.b64decode(browser.cdp("Page.printToPDF", printBackground=False)["data"])
    (pictures / f"{stem}.pdf").write_bytes(paper)
    check(len(paper) > 20_000 and paper.startswith(b"%PDF"), f"it prints ({len(paper)} bytes)")


def policy_holds(browser):
    """Even a script that got in could ask nobody for anything."""
    blocked = browser.of("POST", "/execute/async", {"script": """
        const done = arguments[0], seen = [];
        document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
        const image = new Image();
        image.src = "https://example.invalid/a.png";
        const script = document.createElement("script");
        script.textContent = "window.gotIn = true";
        document.body.append(script);
        fetch("https://example.invalid/").catch(() => 0).then(() => setTimeout(() => done([seen, window.gotIn === true]), 300));
        """, "args": []})
    check({"img-src", "connect-src"} <= set(blocked[0]) and any(d.startswith("script-src") for d in blocked[0]),
          f"the policy refuses images, connections and scripts: {blocked[0]}")
    check(not blocked[1], "a script that is put in does not run")


def without_script(browser, page, plot):
    # Nothing can be scrolled without a script, so the window is tall.
    browser.cdp("Emulation.setDeviceMetricsOverride", width=1280, height=4000, deviceScaleFactor=1, mobile=False)
    browser.allow_scripts(False)
    browser.open(page)
    browser.click(browser.find(f"{plot} .log-axis"))
    seen = browser.of("GET", f"/element/{browser.find(f'{plot} .log > svg')[ELEMENT]}/displayed")
    check(seen, "without scripts the picture is there, and the axis can be changed")
    browser.allow_scripts(True)
    browser.cdp("Emulation.clearDeviceMetricsOverride")


def hostile_names_are_words(browser, page):
    browser.open(page)
    asks_for_nothing(browser, page)
    check(browser.run("return window.pwned === undefined"), "no name was run")
    check(browser.run("return document.querySelectorAll('script').length") == 2, "no script but the page's own two")
    text = browser.run("return document.body.innerText")
    check("<script>" in text and "</script>" in text, "the name is shown as it is")
    wide = browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    check(wide[0] <= wide[1], f"a long name makes the page no wider {wide}")
    frame = browser.run("return document.querySelector('.frame') ? '#' + document.querySelector('.frame').dataset.plotId : null")
    if frame:
        scroll_to(browser, frame)
        browser.move(browser.find(f"{frame} .frame"), 10)
        check(eventually(lambda: "<script>" in (tip(browser, frame) or "")), "and so it is in a tip")
        check(browser.run("return window.pwned === undefined"), "still nothing was run")


def main():
    page, hostile, pictures = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    pictures.mkdir(parents=True, exist_ok=True)
    plot = "#neg-elbo"
    browser = Browser()
    try:
        print("the page")
        browser.open(page)
        asks_for_nothing(browser, page)
        tips_by_mouse(browser, plot)
        tips_by_keyboard(browser, plot)
        runs_are_toggled(browser, plot)
        axes_are_toggled(browser, plot)
        is_accessible(browser)
        asks_for_nothing_more = [entry["message"] for entry in browser.log("browser")]
        check(not asks_for_nothing_more, f"the console is still silent {asks_for_nothing_more}")
        photographs(browser, pictures, "report")
        policy_holds(browser)
        browser.log("browser")
        without_script(browser, page, plot)
        browser.log("performance")
        print("hostile names")
        browser.log("browser")
        hostile_names_are_words(browser, hostile)
        photographs(browser, pictures, "hostile")
    finally:
        browser.quit()
    print(f"photographs are in {pictures}")


main()
