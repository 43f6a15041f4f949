/** Makes decisions in a loop inside workerd, with and without statistics and samples. */
import { parseConfig } from "../../../src/policy/vars/config.ts";
import type { Policy } from "../../../src/policy/policy.ts";
import { KeySealer } from "../../../src/control/isolate/key-sealer.ts";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { mostSampledEvents } from "../../../src/control/isolate/traffic-sample.ts";
import { recordOutcomes } from "../../../src/http/record-outcomes.ts";
import { type Spend, ChargeResult } from "../../../src/limiter/isolate/outcome.ts";
import { createMeter, type Meter } from "../../../src/strategies/index.ts";
import { partitionKeys, zipfFrom } from "../../control/key-streams.ts";
import { randomFrom } from "../../random.ts";
import { type LoadName, loads, type Mode, oneKeyIn, type OverheadCall, type OverheadReply } from "./loads.ts";

/** The simulated rate of the isolate. */
const decisionsPerMs = 20;

class Load {
  readonly #policy: Policy;
  readonly #meters = new Map<string, Meter>();
  readonly #spends: readonly Spend[];
  #decisions = 0;
  denied = 0;

  constructor(name: LoadName, mode: Mode) {
    const { keys, limits } = loads[name];
    const [policy] = parseConfig({
      KEY_SECRET: "the secret of the measurement",
      POLICIES: [{ name: "p", limits, strategy: "fixed-window" }],
    }).policies;
    if (policy === undefined) throw new Error("a policy is configured");
    this.#policy = policy;
    const spends = partitionKeys(keys).map((partitionKey, number): Spend => {
      const values = [`192.0.${number >> 8}.${number & 255}`];
      const plain = { parts: policy.key, values };
      return { policy, partitionKey, cost: 1, ...(mode === "all" && { plain }) };
    });
    const draw = zipfFrom(randomFrom(1), spends);
    this.#spends = Array.from({ length: 1 << 17 }, draw);
  }

  get decisions(): number {
    return this.#decisions;
  }

  /**
   * Decides as a request does, from the charge to the outcome.
   * @returns milliseconds
   */
  run(decisions: number, statistics: IsolateStatistics | null): number {
    const runtime = { statistics };
    const startedAtMs = performance.now();
    for (let number = 0; number < decisions; number++) {
      const spend = this.#spends[this.#decisions % this.#spends.length];
      if (spend === undefined) throw new RangeError("there are spends");
      const nowMs = 1_800_000_000_000 + Math.floor(this.#decisions / decisionsPerMs);
      const decision = this.#meterOf(spend).consume(spend.cost, nowMs);
      const admission = new ChargeResult();
      admission.addOutcomes([{ kind: "decided", policy: this.#policy, decision, decidedAtMs: nowMs }]);
      admission.isRefused = !decision.allowed;
      if (admission.isRefused) this.denied++;
      recordOutcomes({ spends: [spend], admission }, runtime);
      this.#decisions++;
      // A full sample records nothing, so it is emptied. Encoding it is a part of the cost of samples.
      if (this.#decisions % mostSampledEvents === 0) statistics?.traffic?.drain();
    }
    return performance.now() - startedAtMs;
  }

  #meterOf({ partitionKey, policy }: Spend): Meter {
    const known = this.#meters.get(partitionKey);
    if (known !== undefined) return known;
    const meter = createMeter(policy.limits);
    this.#meters.set(partitionKey, meter);
    return meter;
  }
}

function statisticsOf(mode: Mode): IsolateStatistics | null {
  if (mode === "off" || mode === "off again") return null;
  const isAll = mode === "all";
  const keys = oneKeyIn[mode];
  const statistics = new IsolateStatistics({
    sealer: isAll ? new KeySealer("the secret of the measurement") : null,
    alertedPolicies: new Set(isAll ? ["p"] : []),
    sample: keys === null ? null : { oneKeyIn: keys, policies: new Set(["p"]) },
  });
  statistics.setTailed(isAll);
  return statistics;
}

interface Contestant {
  readonly load: Load;
  readonly statistics: IsolateStatistics | null;
}

const contestants = new Map<string, Contestant>();

function contestantOf(load: LoadName, mode: Mode): Contestant {
  const name = `${load} ${mode}`;
  const known = contestants.get(name);
  if (known !== undefined) return known;
  const created = { load: new Load(load, mode), statistics: statisticsOf(mode) };
  contestants.set(name, created);
  return created;
}

async function beat(statistics: IsolateStatistics | null): Promise<number> {
  const startedAtMs = performance.now();
  const batches = (await statistics?.batches()) ?? [];
  const elapsedMs = performance.now() - startedAtMs;
  statistics?.stored(batches.at(-1)?.seq ?? 0);
  statistics?.alerts();
  await statistics?.tail();
  return elapsedMs;
}

export default {
  async fetch(request: Request): Promise<Response> {
    const call = await request.json<OverheadCall>();
    const { load, statistics } = contestantOf(call.load, call.mode);
    const elapsedMs = call.decisions > 0 ? load.run(call.decisions, statistics) : await beat(statistics);
    const deniedShare = load.denied / Math.max(1, load.decisions);
    return Response.json({ elapsedMs, deniedShare } satisfies OverheadReply);
  },
};
