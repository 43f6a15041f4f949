/** The units of one client at an instant, limit by limit, in the sentences of the engine. */
import { changesByDenial, type Limit, limitSentence } from "../../../strategies/index.ts";
import { clientMeter } from "../model/run.ts";
import { type LaneRun, outcome } from "../model/scenario.ts";
import { firstRowAt } from "./bins.ts";

export interface LimitAt {
  readonly name: string;
  readonly used: number;
  readonly remaining: number;
  readonly sentence: string;
}

/** Decides the requests of a client once more, up to and with those of the instant. */
export function limitsAt(run: LaneRun, limits: readonly Limit[], key: number, atMs: number): readonly LimitAt[] {
  const client = clientMeter(limits, run.runsMs);
  const changesIfDenied = limits.some(changesByDenial);
  const end = firstRowAt(run, atMs + 1);
  for (let row = 0; row < end; row++) {
    const isSpent = run.outcome[row] !== outcome.denied;
    if (run.key[row] !== key || !(isSpent || changesIfDenied)) continue;
    const rowMs = run.startMs + (run.atMs[row] ?? 0);
    client.release(rowMs);
    client.decide(run.cost[row] ?? 0, rowMs);
  }
  const nowMs = run.startMs + atMs;
  client.release(nowMs);
  const accounts = client.meter.account(nowMs);
  return client.meter.look(0, nowMs).limits.flatMap((limit, index) => {
    const account = accounts[index];
    if (account === undefined) return [];
    const { name, remaining } = limit;
    return [{ name, remaining, used: account.used, sentence: limitSentence(limit, account) }];
  });
}
