/** The changelog and the stated versions of the project have the form that `npm run release` expects. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const changelog = readFileSync("CHANGELOG.md", "utf8");
const [, unreleased = "", ...releases] = changelog.split(/^## /m);

it("every version in the changelog has a date and a linked heading, and the newest version is first", () => {
  const sections = releases.map((text) => /^\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})\n/.exec(text) ?? [text]);
  const dates = sections.map(([, , date = ""]) => date);
  expect(dates).toEqual(dates.toSorted().toReversed());
  expect(dates.every((date) => !Number.isNaN(Date.parse(date)))).toBe(true);
  const links = sections.map(([, version, date]) => `[${version}]: #${version?.replaceAll(".", "")}---${date}\n`);
  expect(changelog.endsWith(["\n[Unreleased]: #unreleased\n", ...links].join(""))).toBe(true);
});

it("the section Unreleased is empty, or has sections as in Keep a Changelog and says what happens to stored state", () => {
  const [heading = "", ...parts] = unreleased.split(/^### /m);
  if (heading.trim() === "[Unreleased]" && parts.length === 0) return;
  const known = ["Upgrade", "Security", "Changed", "Deprecated", "Removed", "Added", "Fixed"];
  const titles = parts.map((part) => part.slice(0, part.indexOf("\n")));
  expect(titles.filter((title) => !known.includes(title))).toEqual([]);
  expect(parts.filter((part) => part.trim().split("\n").length === 1)).toEqual([]);
  expect(parts.find((part) => part.startsWith("Upgrade\n"))).toContain("\n- **Stored state:** ");
});

it("only the files that a release changes state the version of the project", () => {
  const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
  const command = ["grep", "-lF", `"${version}"`, "--", "src", "wrangler.toml", "package.json"];
  const found = execFileSync("git", command, { encoding: "utf8" }).trim().split("\n");
  expect(found).toEqual([
    "package.json",
    "src/http/wire/admin-openapi.json",
    "src/http/wire/openapi.json",
    "src/http/wire/version.ts",
  ]);
});
