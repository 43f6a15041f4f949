/** The matches of a run: contestants that are compared take their turns next to each other. */
import type { Contestant } from "./contestants.ts";
import { goals } from "./goals.ts";
import type { LoadName } from "./load.ts";

export interface Match {
  /** The contestant whose ratios to the others are reported. */
  readonly subject: string;
  readonly others: readonly string[];
  readonly load: LoadName;
}

/** The matches that the goals of these contestants need. */
export function goalMatches(chosen: readonly Contestant[]): Match[] {
  return (["loaded", "alone"] as const).flatMap((load) =>
    chosen
      .map(({ id }) => ({ subject: id, others: goalsOf(id, load), load }))
      .filter(({ others }) => others.length > 0),
  );
}

/** The matches that measure all figures of these contestants. */
export function allMatches(chosen: readonly Contestant[]): Match[] {
  const loaded = chosen.map(({ id, floor }): Match => {
    const floors = floor === undefined ? [] : [floor];
    return {
      subject: id,
      others: [...new Set([...floors, ...goalsOf(id, "loaded")])],
      load: "loaded",
    };
  });
  const others = new Set(loaded.flatMap((match) => match.others));
  return [
    // A floor needs no match of its own, because it has its turns in the matches of other contestants.
    ...loaded.filter(({ subject, others: own }) => own.length > 0 || !others.has(subject)),
    ...chosen.map(({ id }): Match => ({
      subject: id,
      others: goalsOf(id, "alone"),
      load: "alone",
    })),
  ];
}

/** All contestants of these matches. */
export const participants = (matches: readonly Match[]): Set<string> =>
  new Set(matches.flatMap(({ subject, others }) => [subject, ...others]));

const goalsOf = (id: string, load: LoadName): string[] =>
  goals.filter((goal) => goal.of === id && goal.load === load).map(({ to }) => to);
