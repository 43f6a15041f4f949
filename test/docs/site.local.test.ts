/**
 * The documentation site: built by `npm run docs` below a path, as GitHub Pages serves it, and opened in a browser.
 */
import { createReadStream, existsSync, globSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, posix } from "node:path";
import { spawnSync } from "node:child_process";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type SitePage, sitePages } from "../../site/navigation.ts";
import { hasBrowser, launchBrowser, openPage, type PageOptions } from "../console/app/browser.ts";
import { horizontalOverflow } from "../console/app/page-checks.ts";
import { done } from "../console/app/playground-page.ts";
import { hasTime } from "../mode.ts";
import { freePort, printed, runNpm } from "../system/checkout.ts";

const base = "/headgate/";
const folder = "dist/site";
const pages = sitePages(".");

/** The address of a page below the base, as its links and the search write it. */
const addressOf = ({ path }: SitePage): string =>
  base + path.replace(/(^|\/)index\.md$/, "$1").replace(/\.md$/, ".html");

const types: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".json": "application/json",
};

/** The file that GitHub Pages would serve, or null. */
function fileAt(pathname: string): string | null {
  if (!pathname.startsWith(base)) return null;
  const path = decodeURI(pathname.slice(base.length));
  const file = join(folder, path === "" || path.endsWith("/") ? `${path}index.html` : path);
  return existsSync(file) && statSync(file).isFile() ? file : null;
}

const server = createServer(({ url = "" }, response) => {
  const file = fileAt(new URL(url, "http://localhost").pathname);
  response.writeHead(file === null ? 404 : 200, { "content-type": types[extname(file ?? "")] ?? "text/plain" });
  if (file === null) response.end();
  else createReadStream(file).pipe(response);
});

let origin = "";
beforeAll(async () => {
  const build = runNpm(".", "run", "--silent", "docs", "--", "--base", base);
  expect([await build.ended, build.output()]).toEqual([
    0,
    expect.stringContaining("The documentation is in dist/site"),
  ]);
  server.listen(0);
  origin = `http://localhost:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

describe("the files of the site", () => {
  const htmlOf = (page: SitePage): string => readFileSync(fileAt(addressOf(page)) ?? "", "utf8");
  const attributes = (html: string, name: string): string[] =>
    [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, "g"))].map(([, value = ""]) => value.replaceAll("&amp;", "&"));

  it("every link and image of every page leads to a file of the site and to a heading on it", () => {
    const ids = new Map(pages.map((page) => [addressOf(page), new Set(attributes(htmlOf(page), "id"))]));
    const problems = pages.flatMap((page) => {
      const from = `http://localhost${addressOf(page)}`;
      const html = htmlOf(page);
      return [...attributes(html, "href"), ...attributes(html, "src")].flatMap((link) => {
        const { host, pathname, hash, protocol } = new URL(link, from);
        if (host !== "localhost" || protocol !== "http:" || link.startsWith("http")) return [];
        if (fileAt(pathname) === null) return [`${page.file}: ${link}`];
        const anchor = decodeURIComponent(hash.slice(1));
        return anchor === "" || ids.get(pathname)?.has(anchor) !== false ? [] : [`${page.file}: ${link}`];
      });
    });
    expect(problems).toEqual([]);
  });

  it("no page has a link to Markdown on the site, and links to other files lead to the repository", () => {
    const links = pages.flatMap((page) => attributes(htmlOf(page), "href"));
    expect(links.filter((link) => /\.md(?:[?#]|$)/.test(link) && !link.startsWith("https://"))).toEqual([]);
    expect(links.filter((link) => link.endsWith("/blob/main/SECURITY.md")).length).toBeGreaterThan(1);
  });

  it("the site has no copies of pages in the repository", () => {
    const copies = globSync("site/**/*.md", { exclude: ["**/node_modules"] });
    expect(copies).toEqual([posix.join("site", "README.md")]);
  });

  it("the files of site compile and follow the linter's rules", () => {
    const outputOf = (...words: string[]): string => {
      const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
      return status === 0 ? "" : stdout + stderr;
    };
    expect(outputOf("node_modules/typescript/bin/tsc", "-p", "site")).toBe("");
    expect(outputOf("node_modules/oxlint/bin/oxlint", "--type-aware", "site", "site/.vitepress")).toBe("");
  });
});

describe.skipIf(!hasBrowser)("the site in Chromium, skipped unless it is installed", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());

  /** Opens a page of the site. The test fails at its end if the page has a problem. */
  async function open(path = "", options: PageOptions = {}): Promise<Page> {
    const { page, problems } = await openPage(browser, options);
    onTestFinished(async () => {
      await page.context().close();
      expect(problems).toEqual([]);
    });
    await page.goto(origin + base + path);
    return page;
  }

  const isDark = (page: Page): Promise<boolean> =>
    page
      .locator("html.dark")
      .count()
      .then((count) => count === 1);

  it("the navigation has a link to every page, and a click on it opens the page", async () => {
    const page = await open();
    const sidebar = page.getByRole("navigation", { name: "Sidebar Navigation" });
    const links: string[] = await sidebar
      .locator("a")
      .evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
    const expected = pages.filter(({ file }) => file !== "README.md").map(addressOf);
    expect(links.toSorted()).toEqual(expected.toSorted());
    await sidebar.getByRole("button", { name: "Reference" }).click();
    await sidebar.getByRole("link", { name: "Keys", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Keys" }).waitFor();
    expect(page.url()).toBe(`${origin}${base}reference/keys.html`);
  });

  it("search finds every page by its title, and Enter opens the first result", async () => {
    const page = await open();
    await page.getByRole("button", { name: "Search" }).click();
    const box = page.getByRole("searchbox");
    const notFound: string[] = [];
    for (const each of pages) {
      // oxlint-disable no-await-in-loop -- there is one search box
      // The box accepts 64 characters.
      await box.fill(each.title.slice(0, 64));
      const result = page.locator(`.VPLocalSearchBox .result[href^="${addressOf(each)}#"]`).first();
      await result.waitFor({ state: "attached", timeout: 5_000 }).catch(() => notFound.push(each.title));
      // oxlint-disable-end
    }
    expect(notFound).toEqual([]);
    await box.fill("Calendar quotas");
    await page.locator(".VPLocalSearchBox .result.selected", { hasText: "Calendar quotas" }).waitFor();
    await box.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Calendar quotas" }).waitFor();
  });

  // This takes a minute.
  it.runIf(hasTime)(
    "every page opens on a phone without errors and without scrolling sideways, in light and in dark",
    async () => {
      const page = await open("", { width: 390, height: 844 });
      const problems: string[] = [];
      for (const each of pages) {
        // oxlint-disable no-await-in-loop -- one page after the other, as a reader opens them
        await page.emulateMedia({ colorScheme: "light" });
        await page.goto(origin + addressOf(each));
        await page.locator(".VPSidebar").waitFor({ state: "attached" });
        if ((await page.locator("h1").innerText()).replaceAll("\u200b", "").trim() !== each.title)
          problems.push(`${each.file}: another title`);
        const diagrams = await page.locator("pre.diagram, div.diagram").count();
        await expect.poll(() => page.locator("div.diagram svg").count()).toBe(diagrams);
        if ((await horizontalOverflow(page)) > 0) problems.push(`${each.file}: scrolls sideways`);
        if (await isDark(page)) problems.push(`${each.file}: is dark`);
        await page.emulateMedia({ colorScheme: "dark" });
        await expect.poll(() => isDark(page)).toBe(true);
        if ((await horizontalOverflow(page)) > 0) problems.push(`${each.file}: scrolls sideways in dark`);
        // oxlint-disable-end
      }
      expect(problems).toEqual([]);
    },
  );

  it("pictures and diagrams follow the theme that the reader chose, whatever the system has", async () => {
    const page = await open("explanation/accuracy.html", { theme: "light" });
    const shown = page.getByRole("img", { name: /^Over- and under-admission/ });
    const source = async (): Promise<string> => {
      await shown.scrollIntoViewIfNeeded();
      await expect.poll(() => shown.evaluate((image) => image.naturalWidth)).toBeGreaterThan(0);
      return (await shown.getAttribute("src")) ?? "";
    };
    expect(await source()).toMatch(/accuracy-light\.[\w-]+\.svg$/);
    await page.getByRole("switch", { name: /dark theme/i }).click();
    expect(await source()).toMatch(/accuracy-dark\.[\w-]+\.svg$/);
    await page.goto(`${origin}${base}explanation/control-plane.html`);
    const diagram = page.locator("div.diagram svg");
    const inDark = await diagram.innerHTML();
    await page.getByRole("switch", { name: /light theme/i }).click();
    await expect.poll(() => diagram.innerHTML()).not.toBe(inDark);
  });

  it("the menu of a phone opens every section", async () => {
    const page = await open("", { width: 390, height: 844 });
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("button", { name: "Explanation" }).click();
    await page.locator(".VPSidebar").getByRole("link", { name: "How a request flows" }).click();
    await page.getByRole("heading", { level: 1, name: "How a request flows" }).waitFor();
  });

  it("an example of a strategy opens in the playground of the site", async () => {
    const page = await open("reference/strategies.html");
    await page.getByRole("link", { name: "Open this example in the playground" }).first().click();
    await page.waitForURL(
      ({ pathname, searchParams }) => pathname === `${base}playground/` && searchParams.has("limit"),
    );
    await done(page);
  });
});

it("npm run docs -- --serve serves the pages, with a heading from its file, until it is interrupted", async () => {
  const port = await freePort();
  const run = runNpm(".", "run", "--silent", "docs", "--", "--serve", "--port", String(port));
  onTestFinished(() => void (run.npm.pid !== undefined && process.kill(-run.npm.pid, "SIGTERM")));
  await printed(run, `The documentation is on http://localhost:${port}/\n`);
  const module = await fetch(`http://localhost:${port}/docs/how-to/jwt.md`, { headers: { accept: "text/javascript" } });
  expect([module.status, await module.text()]).toEqual([200, expect.stringContaining("Limit by a JWT claim")]);
});

it("a base without a slash at its ends is an error", async () => {
  const run = runNpm(".", "run", "--silent", "docs", "--", "--base", "headgate");
  expect([await run.ended, run.output()]).toEqual([
    1,
    '--base: expected a path that begins and ends with "/", such as /headgate/, got "headgate"\n',
  ]);
});
