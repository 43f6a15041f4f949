/** Reads CHANGELOG.md in the format of Keep a Changelog, and turns its section "Unreleased" into that of a release. */

export interface ChangelogSection {
  /** "Unreleased", or a version. */
  readonly name: string;
  /** The text below the heading, without the links at the end of the page. */
  readonly text: string;
  readonly parts: readonly ChangelogPart[];
}

export interface ChangelogPart {
  /** Such as "Added". */
  readonly title: string;
  readonly text: string;
}

/** Those of Keep a Changelog, after the part that says what an upgrade does to stored state. */
const partTitles = ["Upgrade", "Security", "Changed", "Deprecated", "Removed", "Added", "Fixed"] as const;

const unreleased = "Unreleased";
/** Each release states what happens to stored state, under this name. */
const storedStateEntry = "**Stored state:**";
/** The link of the section, below all sections. */
const unreleasedLink = "[Unreleased]: #unreleased\n";

/** @returns null if the changelog has no such section */
export function changelogSection(changelog: string, name: string): ChangelogSection | null {
  const [, ...sections] = changelog.split(/^## /m);
  const own = sections.find((section) => section.startsWith(`[${name}]`));
  if (own === undefined) return null;
  const body = own.slice(own.indexOf("\n") + 1);
  const text = body.replace(/^\[[^\]\n]+\]: .*\n?/gm, "").trim();
  const [, ...parts] = text.split(/^### /m);
  return { name, text, parts: parts.map(partOf) };
}

function partOf(part: string): ChangelogPart {
  const [title = "", ...lines] = part.split("\n");
  return { title: title.trim(), text: lines.join("\n").trim() };
}

/** Whether the section has a change that needs an edit by users. */
export const isBreaking = ({ text, parts }: ChangelogSection): boolean =>
  text.includes("**Breaking**") || parts.some(({ title }) => title === "Removed");

/** The problems that forbid a release of the section "Unreleased". */
export function unreleasedProblems(changelog: string): string[] {
  const section = changelogSection(changelog, unreleased);
  if (section === null) return ['CHANGELOG.md: expected the section "## [Unreleased]".'];
  if (section.text === "") {
    return ['CHANGELOG.md: expected entries below "## [Unreleased]", which is empty.'];
  }
  return [
    ...sectionProblems(section),
    ...(changelog.includes(unreleasedLink)
      ? []
      : [`CHANGELOG.md: expected the line "${unreleasedLink.trim()}" at the end.`]),
  ];
}

/** The problems in the section of a release: unknown or empty parts, and a missing upgrade note. */
export function sectionProblems({ name, parts }: ChangelogSection): string[] {
  const place = `CHANGELOG.md, ${name}`;
  const known: readonly string[] = partTitles;
  const upgrade = parts.find(({ title }) => title === "Upgrade");
  return [
    ...parts.flatMap(({ title, text }) => [
      ...(known.includes(title) ? [] : [`${place}: expected one of ${known.join(", ")}, got the part "${title}".`]),
      ...(text === "" ? [`${place}: expected entries below "### ${title}", which is empty.`] : []),
    ]),
    ...(upgrade?.text.includes(storedStateEntry) === true
      ? []
      : [
          `${place}: expected a part "### Upgrade" with an entry "${storedStateEntry}", which says what an upgrade does to it.`,
        ]),
  ];
}

/** Renames the section "Unreleased" to the version, and adds an empty one above it. */
export function releasedChangelog(changelog: string, version: string, date: string): string {
  const heading = `## [${version}] - ${date}`;
  // GitHub's anchor of the heading.
  const anchor = `#${version.replaceAll(".", "")}---${date}`;
  return changelog
    .replace(/^## \[Unreleased\]\n/m, () => `## [${unreleased}]\n\n${heading}\n`)
    .replace(unreleasedLink, (link) => `${link}[${version}]: ${anchor}\n`);
}

export const unreleasedSection = (changelog: string): ChangelogSection | null =>
  changelogSection(changelog, unreleased);
