/** The version of the package, where it is stated, and the next one. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { filesWithVersion, mayBreak, nextVersion, statedVersion, versionPlaces } from "../../src/cli/version.ts";

const read = (file: string): string => readFileSync(file, "utf8");
const current = statedVersion(read);

describe("the places that state the version", () => {
  it("all places state the version of package.json", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    expect(current).toBe(version);
  });

  it("no other source file states the version", () => {
    const command = ["grep", "-lF", `"${current}"`, "--", "src", "wrangler.toml", "package.json"];
    const found = execFileSync("git", command, { encoding: "utf8" }).trim().split("\n");
    const known = versionPlaces.map(({ file }) => file);
    expect(found.filter((file) => !known.includes(file))).toEqual([]);
    expect(found.length).toBeGreaterThan(3);
  });

  it("another version changes one line in each place, and nothing else", () => {
    const changed = filesWithVersion(read, "7.8.9");
    expect(statedVersion((file) => changed.get(file) ?? "")).toBe("7.8.9");
    for (const [file, text] of changed) {
      const before = read(file).split("\n");
      const lines = text.split("\n").filter((line, index) => line !== before[index]);
      const places = versionPlaces.filter((place) => place.file === file);
      expect([file, lines.length]).toEqual([file, places.length]);
    }
  });

  it("a place with another version, or without one, is reported", () => {
    const other = filesWithVersion(read, "7.8.9").get("src/http/wire/version.ts") ?? "";
    const withText = (text: string) => () =>
      statedVersion((file) => (file === "src/http/wire/version.ts" ? text : read(file)));
    expect(withText(other)).toThrow(
      `src/http/wire/version.ts: expected the version ${current} of package.json, got 7.8.9.`,
    );
    expect(withText("")).toThrow("got none.");
  });
});

describe("the next version", () => {
  it.each([
    ["0.1.0", "patch", "0.1.1"],
    ["0.1.9", "minor", "0.2.0"],
    ["0.9.9", "major", "1.0.0"],
    ["0.1.0", "0.1.1", "0.1.1"],
    ["0.9.0", "0.10.0", "0.10.0"],
    ["1.2.3", "2.0.0", "2.0.0"],
  ])("after %s, the argument %s names %s", (from, argument, version) => {
    expect(nextVersion(from, argument)).toBe(version);
  });

  it.each([
    ["0.1.0", "0.1.0"],
    ["0.10.0", "0.9.9"],
    ["1.2.3", "1.1.9"],
    ["1.2.3", "0.9.0"],
  ])("after %s, the version %s is rejected because it is not greater", (from, argument) => {
    expect(() => nextVersion(from, argument)).toThrow(
      `Expected a version greater than ${from}, which package.json states, got ${argument}.`,
    );
  });

  it.each(["", "v1.0.0", "1.0", "01.0.0", "1.0.0-beta.1", "1.0.0 ", "Minor", "huge"])(
    'the argument "%s" is rejected with what is accepted',
    (argument) => {
      expect(() => nextVersion("0.1.0", argument)).toThrow(
        `Expected patch, minor, major, or a version such as 0.2.0, got "${argument}".`,
      );
    },
  );

  it("a missing argument and an invalid current version are rejected", () => {
    expect(() => nextVersion("0.1.0", undefined)).toThrow("0.2.0, got nothing.");
    expect(() => nextVersion("next", "minor")).toThrow('such as 0.2.0, got "next".');
  });

  it.each([
    ["0.1.0", "0.1.1", false],
    ["0.1.0", "0.2.0", true],
    ["0.1.0", "1.0.0", true],
    ["1.1.0", "1.1.1", false],
    ["1.1.0", "1.2.0", false],
    ["1.1.0", "2.0.0", true],
  ])("a release of %s to %s may break: %s", (from, to, isAllowed) => {
    expect(mayBreak(from, to)).toBe(isAllowed);
  });
});
