/** The navigation and the links of the documentation site. `site.local.test.ts` tests the site itself. */
import { describe, expect, it } from "vitest";
import { playgroundPath, repositoryUrl, siteLink } from "../../site/links.ts";
import { type Item, sections, sidebarOf, sitePages } from "../../site/navigation.ts";
import { pagePaths } from "./pages.ts";

const pages = sitePages(".");

const linksIn = (items: readonly Item[]): string[] =>
  items.flatMap(({ link, items: below = [] }) => [...(link === undefined ? [] : [link]), ...linksIn(below)]);

const made = (file: string, title = "A") => ({ file, path: file.replace("docs/", ""), title });

describe("the navigation of the site", () => {
  it("every page below docs is in the navigation once, in the section of its folder", () => {
    const files = pagePaths().filter((path) => path.startsWith("docs/"));
    expect(pages.map(({ file }) => file)).toEqual(["README.md", ...files]);
    const paths = pages.slice(1).map(({ path }) => `/${path.replace(/(?:index)?\.md$/, "")}`);
    expect(linksIn(sidebarOf(pages)).toSorted()).toEqual(paths.toSorted());
    for (const [index, section] of sidebarOf(pages).entries()) {
      const folder = sections[index]?.folder ?? "";
      expect(linksIn(section.items ?? []).filter((link) => !link.startsWith(`/${folder}/`))).toEqual([]);
    }
  });

  it("a new page appears below the pages that have a place, sorted by title, without an edit of the navigation", () => {
    const added = [
      ...pages,
      made("docs/tutorials/b.md", "Zebra: a title with a colon"),
      made("docs/tutorials/a.md", "Lion"),
    ];
    const { items = [] } = sidebarOf(added)[0] ?? {};
    expect(items.slice(-2)).toEqual([
      { text: "Lion", link: "/tutorials/a" },
      { text: "Zebra", link: "/tutorials/b" },
    ]);
  });

  it("a page in a folder without a section is an error that names the page and the folders", () => {
    expect(() => sidebarOf([...pages, made("docs/new/a.md")])).toThrow(
      "docs/new/a.md: expected a page in a folder of site/navigation.ts: tutorials, how-to, reference",
    );
  });

  it("a place in the navigation for a page that does not exist is an error that names the page", () => {
    const removed = pages.filter(({ file }) => file !== "docs/how-to/jwt.md");
    expect(() => sidebarOf(removed)).toThrow("site/navigation.ts: docs/how-to/jwt.md does not exist");
  });
});

describe("a link of a page", () => {
  const repository = "https://github.com/owner/headgate";
  const from = "docs/how-to/jwt.md";

  it.each([
    ["rotate-secrets.md#a", "/how-to/rotate-secrets.md#a"],
    ["../reference/keys.md", "/reference/keys.md"],
    ["../examples/README.md", "/examples/index.md"],
    ["../../README.md#quick-start", "/index.md#quick-start"],
    ["../../CONTRIBUTING.md#releasing", `${repository}/blob/main/CONTRIBUTING.md#releasing`],
    ["../examples/llm-tokens/src/index.ts", `${repository}/blob/main/docs/examples/llm-tokens/src/index.ts`],
    ["../../src", `${repository}/tree/main/src`],
    ["#a", "#a"],
    ["https://example.com/a.md", "https://example.com/a.md"],
    ["http://admin.localhost:8787/_headgate/playground?limit=5/1s", `${playgroundPath}?limit=5/1s`],
  ])("%s leads to %s on the site", (link, target) => {
    expect(siteLink(link, from, { root: ".", repository })).toBe(target);
  });

  it("a link of README to a workflow leads to the workflow in the repository, and the same link of another page is an error", () => {
    const link = "../../actions/workflows/ci.yml";
    const target = siteLink(link, "README.md", { root: ".", repository });
    expect(target).toBe(`${repository}/actions/workflows/ci.yml`);
    expect(() => siteLink(link, from, { root: ".", repository })).toThrow(
      "actions/workflows/ci.yml, which does not exist",
    );
  });

  it.each(["missing.md", "../missing.ts#a", "../../../outside.md"])(
    "the dead link %s is an error that names the page and the link",
    (link) => {
      expect(() => siteLink(link, from, { root: ".", repository })).toThrow(`${from}: the link ${link} leads to `);
    },
  );

  it("the repository is that of package.json, or the one whose workflow builds the site", () => {
    const manifest = { repository: { url: "git+https://github.com/owner/headgate.git" } };
    expect(repositoryUrl(manifest, {})).toBe(repository);
    const workflow = { GITHUB_SERVER_URL: "https://git.example", GITHUB_REPOSITORY: "fork/headgate" };
    expect(repositoryUrl(manifest, workflow)).toBe("https://git.example/fork/headgate");
  });
});
