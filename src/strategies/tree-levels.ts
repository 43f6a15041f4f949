/** The levels of a tree as written, checked and with what each needs to decide. */
import { ConfigProblems, type ConfigProblem } from "../validation/problems.ts";
import { isCount } from "./integers.ts";
import { parseUnits, parseWindow, splitNotation } from "./notation.ts";
import { acceptedWeight, type Guarantee, isWeight, shareProblem } from "./shared-limit.ts";
import type { Limit } from "./strategy.ts";

/** One level of a tree, such as the users of a team. */
export interface TreeLevel {
  /** A name that no other level has. It stands in decisions and rows. */
  readonly name: string;
  /** The limits of each key of the level. */
  readonly limits: readonly Limit[];
  /**
   * The share of each key in its parent's limit. It is units per window such as "50000/minute", or "fair" for parts in
   * proportion to the weights of the active keys. It refers to the parent's limit over the same window; "fair", to the parent's first
   * limit over a window that a limit of this level has.
   */
  readonly guaranteed?: string;
  /**
   * The weight of a key in a request that states none, from 1 to 1,000,000.
   * @default 1
   */
  readonly weight?: number;
  /** The classes that requests may state. A request of a class is allowed only up to a part of each limit. */
  readonly classes?: readonly TreeClass[];
}

/** A class of requests that may use only a part of each limit of its level. */
export interface TreeClass {
  /** The name that requests state. */
  readonly name: string;
  /** In percent, from 0 to 100. The part of a capacity is rounded down to units. */
  readonly upTo: number;
}

/** The share of a level in a limit of the level above. */
export interface ParentShare {
  readonly guarantee: Guarantee;
  /** The index of the limit. */
  readonly index: number;
  readonly limit: Limit;
}

export interface CheckedLevel {
  readonly level: TreeLevel;
  readonly share: ParentShare | null;
  readonly weight: number;
  /** Percent by class. */
  readonly classes: ReadonlyMap<string, number>;
}

const mostLevels = 8;

/** @throws ConfigProblems with every problem found */
export function checkedLevels(levels: readonly TreeLevel[]): readonly CheckedLevel[] {
  const problems: ConfigProblem[] = [];
  const reportAt = (field: string, value: unknown, accepted: string): void =>
    void problems.push({ variable: "", field, value, accepted });
  if (levels.length === 0 || levels.length > mostLevels) reportAt("", levels.length, `from 1 to ${mostLevels} levels`);
  const checked = levels.map((level, index) => {
    const field = `[${index}]`;
    const { name, limits, weight = 1, classes = [] } = level;
    if (levels.findIndex((other) => other.name === name) < index) {
      reportAt(`${field}.name`, name, "a name that no other level has");
    }
    if (limits.length === 0) reportAt(`${field}.limits`, limits, "at least one limit");
    if (!isWeight(weight)) reportAt(`${field}.weight`, weight, acceptedWeight);
    classes.forEach(({ upTo }, place) => {
      if (isCount(upTo) && upTo <= 100) return;
      reportAt(`${field}.classes[${place}].upTo`, upTo, "an integer from 0 to 100, in percent");
    });
    const report = (accepted: string): void => reportAt(`${field}.guaranteed`, level.guaranteed, accepted);
    const share = level.guaranteed === undefined ? null : shareOf(level, level.guaranteed, levels[index - 1], report);
    return { level, share, weight, classes: new Map(classes.map((each) => [each.name, each.upTo])) };
  });
  if (problems.length > 0) throw new ConfigProblems(problems);
  return checked;
}

/**
 * Reads `guaranteed` of a level: see `TreeLevel`.
 * @returns null for an invalid value, whose description of accepted values is passed to `report`
 */
export function shareOf(
  level: Pick<TreeLevel, "limits">,
  written: unknown,
  parent: Pick<TreeLevel, "limits"> | undefined,
  report: (accepted: string) => void,
): ParentShare | null {
  const read = guaranteeOf(written);
  if (read === null) {
    report('"fair", or units per window such as "50000/minute"');
    return null;
  }
  const { guarantee, windowMs } = read;
  const isSameWindow = (limit: Limit): boolean =>
    windowMs === null ? level.limits.some((own) => own.windowMs === limit.windowMs) : limit.windowMs === windowMs;
  const index = parent?.limits.findIndex(isSameWindow) ?? -1;
  const limit = parent?.limits[index];
  if (limit === undefined) {
    report("a share of a limit of the level above over the same window");
    return null;
  }
  const problem = shareProblem(limit, guarantee);
  if (problem === null) return { guarantee, index, limit };
  report(`under the limit ${limit.name}: ${problem}`);
  return null;
}

/** A guarantee as written, with its window; null for any other text. */
function guaranteeOf(written: unknown): { guarantee: Guarantee; windowMs: number | null } | null {
  if (typeof written !== "string") return null;
  if (written === "fair") return { guarantee: "fair", windowMs: null };
  const [part, ...more] = splitNotation(written);
  if (part === undefined || part === null || more.length > 0) return null;
  const window = parseWindow(part.window);
  return window === null ? null : { guarantee: parseUnits(part.limit), windowMs: window.windowMs };
}
