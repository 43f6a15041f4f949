/** Why a request was denied or must wait: the earlier requests that still count, and when that ends. */
import {
  type UsageTerms,
  type Decision,
  type UsageBreakdown,
  type LimitDecision,
  limitSentence,
} from "../../../strategies/index.ts";
import { sumOf } from "../../../strategies/usage.ts";
import { neverMs, outcome } from "./columns.ts";
import { ClientReplay, type LaneRun } from "./run.ts";

/** How one limit denies or delays a request. */
export interface LimitCause {
  /** Index in `LaneRun.limits`. */
  readonly limit: number;
  /** The computation behind the decision, such as "10 of 10 in the last minute; …". */
  readonly sentence: string;
  /**
   * The rows of earlier requests that still count, the oldest first. Perhaps only some units of the first one count.
   */
  readonly rows: readonly number[];
  /**
   * When this limit allows the request if nothing else is spent, counted from the start of the run; `neverMs` if it
   * never does.
   */
  readonly clearsMs: number;
}

/** The limits that deny or delay the request of a row. The list is empty for a request that was allowed at once. */
export function causesOf(run: LaneRun, row: number): readonly LimitCause[] {
  const atMs = run.atMs[row] ?? 0;
  const client = new ClientReplay(run, run.key[row] ?? 0);
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
      rows: countingRows(run, countedUnits(account.terms), allowedRows),
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

/** The latest requests whose units count. Units stop counting in the order in which they were spent. */
function countingRows({ cost }: LaneRun, units: number, allowedRows: readonly number[]): readonly number[] {
  let start = allowedRows.length;
  for (let left = units; left > 0 && start > 0;) left -= cost[allowedRows[--start] ?? 0] ?? 0;
  return allowedRows.slice(start);
}

/** The number of units that still count, at least in part. */
function countedUnits(terms: UsageTerms): number {
  switch (terms.kind) {
    case "window":
    case "log":
      return terms.units;
    case "two-windows":
      return terms.currentUnits + terms.previousUnits;
    case "buckets":
      return sumOf(terms.buckets);
    case "level":
    case "queue":
      return Math.ceil(terms.owedCredits / terms.creditsPerUnit);
    case "slots":
      return terms.slots;
    default:
      return terms satisfies never;
  }
}
