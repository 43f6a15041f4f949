/** The changelog: its own format, and how a release changes it. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { changelogSection, isBreaking, releasedChangelog, unreleasedProblems } from "../../src/cli/changelog.ts";
import { parsePage } from "../docs/pages.ts";

const own = readFileSync("CHANGELOG.md", "utf8");

const upgrade = "### Upgrade\n\n- **Stored state:** kept.\n";

const changelogOf = (body: string): string =>
  [
    "# Changelog\n\nAll changes.\n\n## [Unreleased]\n\n",
    body,
    "\n## [0.1.0] - 2026-11-21\n\nThe first.\n\n",
    "[Unreleased]: #unreleased\n[0.1.0]: #010---2026-11-21\n",
  ].join("");

describe("the changelog of the project", () => {
  it("the section Unreleased is empty, or states what an upgrade does to stored state", () => {
    const isEmpty = changelogSection(own, "Unreleased")?.text === "";
    expect(isEmpty ? [] : unreleasedProblems(own)).toEqual([]);
  });

  it("every section has a date, a link to its heading, and is listed once, the newest first", () => {
    const sections = [...own.matchAll(/^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$/gm)];
    const dates = sections.map(([, , date = ""]) => date);
    expect(own.match(/^## /gm)).toHaveLength(sections.length + 1);
    expect(dates).toEqual(dates.toSorted().toReversed());
    expect(dates.every((date) => !Number.isNaN(Date.parse(date)))).toBe(true);
    for (const [, version, date] of sections) {
      expect(own).toContain(`[${version}]: #${version?.replaceAll(".", "")}---${date}\n`);
    }
  });
});

describe("a release of a changelog", () => {
  const before = changelogOf(`${upgrade}\n### Added\n\n- A thing.\n`);
  const after = releasedChangelog(before, "0.2.0", "2027-01-02");

  it("the section Unreleased becomes that of the version, below a new and empty one", () => {
    expect(changelogSection(after, "Unreleased")?.text).toBe("");
    expect(changelogSection(after, "0.2.0")?.text).toBe(`${upgrade}\n### Added\n\n- A thing.`);
    expect(changelogSection(after, "0.1.0")?.text).toBe("The first.");
    expect(after).toContain("\n## [0.2.0] - 2027-01-02\n\n### Upgrade\n");
  });

  it("the link of the version leads to the heading of its section", () => {
    const { headings, links } = parsePage("CHANGELOG.md", after);
    const [, slug = ""] = /^\[0\.2\.0\]: #(.+)$/m.exec(after) ?? [];
    expect(headings.map((heading) => heading.slug)).toContain(slug);
    expect(links).toContain(`#${slug}`);
  });

  it("nothing but the heading and the link is added", () => {
    const removed = after.replace("## [0.2.0] - 2027-01-02\n\n", "").replace("[0.2.0]: #020---2027-01-02\n", "");
    expect(removed).toBe(before);
  });
});

describe("a changelog that cannot be released", () => {
  it.each<[string, string, string]>([
    ["without the section", "# Changelog\n", 'expected the section "## [Unreleased]"'],
    ["with an empty section", changelogOf(""), 'expected entries below "## [Unreleased]"'],
    [
      "without an upgrade note",
      changelogOf("### Added\n\n- A thing.\n"),
      'CHANGELOG.md, Unreleased: expected a part "### Upgrade" with an entry "**Stored state:**"',
    ],
    [
      "with an upgrade note that does not name stored state",
      changelogOf("### Upgrade\n\n- Nothing to do.\n"),
      'an entry "**Stored state:**"',
    ],
    ["with an unknown part", changelogOf(`${upgrade}\n### News\n\n- A thing.\n`), 'got the part "News"'],
    [
      "with an empty part",
      changelogOf(`${upgrade}\n### Added\n\n### Fixed\n\n- A thing.\n`),
      'expected entries below "### Added"',
    ],
    [
      "without the link",
      changelogOf(upgrade).replace("[Unreleased]: #unreleased\n", ""),
      'expected the line "[Unreleased]: #unreleased"',
    ],
  ])("a changelog %s is reported", (_, changelog, problem) => {
    expect(unreleasedProblems(changelog)).toEqual([expect.stringContaining(problem)]);
  });

  it.each([
    ["a marked entry", "### Changed\n\n- **Breaking**: another default.\n", true],
    ["a removal", "### Removed\n\n- A field.\n", true],
    ["an addition", "### Added\n\n- A field.\n", false],
  ])("a section with %s is breaking: %s", (_, body, expected) => {
    const section = changelogSection(changelogOf(body), "Unreleased");
    expect(section === null ? null : isBreaking(section)).toBe(expected);
  });
});
