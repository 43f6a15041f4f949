/** Reads the samples of a policy from a running Headgate. */
import type { SamplesChoice, TrafficValues } from "./input-options.ts";
import { commonFacts, periodText, type ReadTraffic, requestsOfKeys } from "./input.ts";
import { countOf, countText, percentText, wrappedLines } from "./report-text.ts";
import { type Samples, type SamplesHeader, SamplesProblem, SamplesReader } from "../replay/read-samples.ts";
import { trafficNotes } from "../replay/recording.ts";
import { levelNote } from "../replay/timelines.ts";
import { type AdminApi, adminProblemText, askAdmin } from "../../cli/admin-api.ts";
import { CommandError } from "../../cli/command.ts";
import { adminApiOf } from "../../cli/settings.ts";
import { type Limit, waitText } from "../../strategies/index.ts";
import { isRecord } from "../../validation/json.ts";

/** Samples of a policy are at most 8 MB, and are read row by row. */
const timeoutMs = 60_000;
/** Isolates report at least every minute while they have requests. */
const silentMs = 600_000;

export async function readSampledTraffic({ url, policy }: SamplesChoice, values: TrafficValues): Promise<ReadTraffic> {
  const api = adminApiOf({ ...values, url });
  const path = `/policies/${encodeURIComponent(policy)}`;
  const answer = await askAdmin(api, path);
  const { key, limits, within } = answer.json;
  const inForce: unknown = isRecord(limits) ? limits["value"] : null;
  if (answer.status !== 200 || !Array.isArray(key) || !isLimits(inForce)) {
    throw new CommandError(await adminProblemText(api, policy, answer));
  }
  const { header, timelines } = await fetchSamples(api, policy);
  const { fromMs, toMs } = timelines.source;
  const notes = [...trafficNotes(timelines), ...(typeof within === "string" ? [levelNote(policy, within)] : [])];
  return {
    timelines,
    lines: [
      `Samples of the policy ${policy} at ${new URL(url).origin}: ${requestsOfKeys(timelines)}`,
      periodText(fromMs, toMs),
      ...[...sampleNotes(header, timelines.source.otherLimitsArrivals), ...notes].flatMap((note) => wrappedLines(note)),
    ],
    facts: {
      policy,
      server: new URL(url).origin,
      key,
      ...commonFacts(timelines),
      sample: header.sample,
      coverage: header.coverage,
      lost: header.lost,
      dropped: header.dropped,
      otherLimitsRequests: timelines.source.otherLimitsArrivals,
      ageMs: header.ageMs,
      notes,
    },
    keyParts: key.map(String),
    keyFields: [],
    filter: null,
    policy: { name: policy, limits: inForce },
  };
}

/** Not a full check: the engine of the server already runs these limits. */
const isLimits = (value: unknown): value is readonly Limit[] =>
  Array.isArray(value) && value.every((limit) => isRecord(limit) && "windowMs" in limit);

async function fetchSamples(api: AdminApi, policy: string): Promise<Samples> {
  const path = `/samples?policy=${encodeURIComponent(policy)}`;
  const answer = await askAdmin(api, path, { timeoutMs });
  if (answer.status !== 200) throw new CommandError(await adminProblemText(api, policy, answer));
  const reader = new SamplesReader();
  try {
    for (const line of answer.text.split("\n")) reader.line(line);
    const samples = reader.finish();
    rejectEmpty(samples);
    return samples;
  } catch (error) {
    if (error instanceof SamplesProblem) throw new CommandError(`${api.url}: ${error.message}`);
    throw error;
  }
}

/** @throws CommandError when there is nothing to replay */
function rejectEmpty({ header, timelines }: Samples): void {
  const { policy, sample } = header;
  if (sample === "off") {
    throw new CommandError(
      `The server records no samples of the policy ${policy}: its SAMPLE is "off". Expected a share of keys such as "1/64".`,
    );
  }
  if (timelines.atMs.length > 0) return;
  const others = timelines.source.otherLimitsArrivals;
  throw new CommandError(
    others > 0
      ? `Overrides and rules decided all sampled requests (${countText(others)}) of the policy ${policy}, so its limits decided none.`
      : `There are no samples of the policy ${policy} of the last 24 hours yet. The server samples ${sample} of the keys.`,
  );
}

function sampleNotes(header: SamplesHeader, otherLimits: number): string[] {
  const { sample, oneKeyIn, requests, coverage, ageMs } = header;
  const all = requests === null ? "" : ` The policy had ${countOf(requests, "request")} in all.`;
  const notes = [
    oneKeyIn === 1
      ? `All keys are sampled.${all}`
      : `1 key in ${countText(oneKeyIn)} is sampled (SAMPLE = "${sample}").${all} Shares are those of the sampled keys; counts and bursts are theirs alone.`,
  ];
  if (coverage < 1) {
    notes.push(`${percentText(coverage)} of the requests of sampled keys were recorded; the others found no room.`);
  }
  if (otherLimits > 0) {
    notes.push(
      `${countOf(otherLimits, "request")} ${otherLimits === 1 ? "is" : "are"} left out: overrides or rules of their keys decided them.`,
    );
  }
  if (ageMs !== null) {
    const silence = ageMs > silentMs ? " No isolate reported since: newer traffic is missing." : "";
    notes.push(`The latest samples were stored ${waitText(ageMs)} ago.${silence}`);
  }
  return notes;
}
