/** Why a request was denied or must wait: the earlier requests that still count, and when that ends. */
import {
  type UsageTerms,
  type Decision,
  type UsageBreakdown,
  type LimitDecision,
  limitSentence,
} from "../../../strategies/index.ts";
import { sumOf } from "../../../strategies/usage.ts";
import type { Lane } from "./lanes.ts";
import { ClientReplay } from "./run.ts";
import { type LaneRun, neverMs, outcome } from "./scenario.ts";

/** Earlier requests that count in the same way. */
interface CountingRequests {
  /** Rows of the run, the oldest first. Some units of the first one may count no more. */
  readonly rows: Uint32Array;
  /** The part of each unit that counts: 1, or the overlap of a sliding-window counter's former window. */
  readonly share: number;
}

/** How one limit denies or delays a request. */
export interface LimitCause {
  /** Index in `LaneRun.limits`. */
  readonly limit: number;
  /** The sum behind the decision, such as "10 of 10 in the last minute; …". */
  readonly sentence: string;
  /** The latest requests come first. */
  readonly counting: readonly CountingRequests[];
  /** When this limit allows the request, if nothing else is spent, from the start of the run; `neverMs` if it never does. */
  readonly clearsMs: number;
}

/** The limits that deny or delay the request of a row; none for a request that was allowed at once. */
export function causesOf(run: LaneRun, { limits }: Lane, row: number): readonly LimitCause[] {
  const atMs = run.atMs[row] ?? 0;
  const client = new ClientReplay(run, limits, run.key[row] ?? 0);
  client.decideUntil(row);
  // A denial restarts elastic windows, and changes nothing else.
  const isDenied = run.outcome[row] === outcome.denied;
  const decision = isDenied ? client.decide(row) : client.look(run.cost[row] ?? 0, atMs);
  const accounts = client.account(atMs);
  const allowedRows = earlierAllowed(run, row);
  return decision.limits.flatMap((limit, index) => {
    const account = accounts[index];
    if (account === undefined || !isCause(decision, limit, account)) return [];
    return {
      limit: index,
      sentence: limitSentence(limit, account),
      counting: countingRows(run, account.terms, allowedRows),
      clearsMs: atMs + (decision.allowed ? decision.delayMs : (limit.retryAfterMs ?? neverMs)),
    };
  });
}

/** The allowed requests of the same client before a row. */
function earlierAllowed({ key, outcome: outcomes }: LaneRun, row: number): number[] {
  const rows: number[] = [];
  for (let earlier = 0; earlier < row; earlier++) {
    if (key[earlier] === key[row] && outcomes[earlier] !== outcome.denied) rows.push(earlier);
  }
  return rows;
}

const isCause = (decision: Decision, limit: LimitDecision, { terms }: UsageBreakdown): boolean =>
  decision.allowed
    ? decision.delayMs > 0 && terms.kind === "queue" && terms.delayMs === decision.delayMs
    : !limit.allowed;

/** Units leave in the order in which they were spent, so that the latest ones count. */
function countingRows(run: LaneRun, terms: UsageTerms, allowedRows: readonly number[]): CountingRequests[] {
  let end = allowedRows.length;
  return countedUnits(terms).flatMap(({ units, share }) => {
    let start = end;
    for (let left = units; left > 0 && start > 0;) left -= run.cost[allowedRows[--start] ?? 0] ?? 0;
    const rows = Uint32Array.from(allowedRows.slice(start, end));
    end = start;
    return rows.length === 0 ? [] : [{ rows, share }];
  });
}

interface CountedUnits {
  readonly units: number;
  readonly share: number;
}

/** The latest units come first. */
function countedUnits(terms: UsageTerms): readonly CountedUnits[] {
  switch (terms.kind) {
    case "window":
    case "log":
      return [{ units: terms.units, share: 1 }];
    case "two-windows":
      return [
        { units: terms.currentUnits, share: 1 },
        { units: terms.previousUnits, share: terms.overlapMs / terms.windowMs },
      ];
    case "buckets":
      return [{ units: sumOf(terms.buckets), share: 1 }];
    case "level":
    case "queue":
      return [{ units: Math.ceil(terms.owedCredits / terms.creditsPerUnit), share: 1 }];
    case "slots":
      return [{ units: terms.slots, share: 1 }];
    default:
      return terms satisfies never;
  }
}
