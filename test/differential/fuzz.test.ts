/** Replays the requests of the fuzz test: valid, malformed and hostile ones of each kind. */
import { beforeAll, expect, it } from "vitest";
import { isFull } from "../mode.ts";
import { callOf, exclusiveKey, invalidCall, queryOf, sharedKey, tokens } from "../tools/fuzz/checks.ts";
import { Draw } from "../tools/fuzz/draw.ts";
import { origin as originModule, originSecret } from "../tools/fuzz/origin.ts";
import { ExclusiveKey, ownPolicy } from "../tools/fuzz/own.ts";
import { secretTag } from "../tools/fuzz/people.ts";
import { rawOf } from "../tools/fuzz/raw.ts";
import { policies, requestOf } from "../tools/fuzz/requests.ts";
import { jwtSettings } from "../tools/fuzz/tokens.ts";
import { requestFrom } from "./from-bytes.ts";
import type { Origin, RecordedRequest } from "./replay.ts";
import { provideWorkerdGlobals } from "./node-platform.ts";
import { compare } from "./targets.ts";

const startMs = Date.UTC(2100, 0, 1);

const deployment = {
  POLICIES: JSON.stringify([...policies, ownPolicy]),
  CHECK_TOKENS: JSON.stringify(tokens),
  KEY_SECRET: `${secretTag}-for-all-versions`,
  ORIGIN: "https://origin.example",
  ORIGIN_SECRET: originSecret,
  ...jwtSettings,
};

/** The bytes of one request, of a kind that the seed determines. */
async function bytesOf(draw: Draw, own: ExclusiveKey): Promise<string> {
  const kind = draw.below(100);
  if (kind < 50) return (await requestOf(draw)).bytes;
  if (kind < 70) return (await invalidCall(draw)).bytes;
  if (kind < 80) return (await rawOf(draw)).bytes;
  const charge = kind < 90 ? await sharedKey(draw) : null;
  if (charge === null) return own.next(draw).call.bytes;
  if (draw.chance(0.3)) return callOf(draw, "GET", `/check${queryOf(charge)}`).bytes;
  const { policy, named, cost } = charge;
  const key = named?.length === 1 ? named[0] : named;
  return callOf(draw, "POST", "/check", { policy, key, cost }).bytes;
}

/** The requests drawn from a seed, and the number of draws that no `Request` can represent. */
async function drawn(
  seed: number,
  count: number,
  variables: object,
): Promise<{ requests: RecordedRequest[]; unrepresentable: number }> {
  const own = new ExclusiveKey(exclusiveKey(new Draw(seed, 0), 0, 0), null);
  const requests: RecordedRequest[] = [];
  let unrepresentable = 0;
  for (let id = 0; id < count; id++) {
    // A call of the exclusive key depends on the calls before it.
    // oxlint-disable-next-line no-await-in-loop
    const request = requestFrom(await bytesOf(new Draw(seed, id), own));
    if (request === null) unrepresentable++;
    else requests.push({ ...request, variables, atMs: startMs + id * 7 });
  }
  return { requests, unrepresentable };
}

let origin: Origin;
beforeAll(async () => {
  provideWorkerdGlobals();
  const url = `data:text/javascript,${encodeURIComponent(originModule)}`;
  const module = (await import(/* @vite-ignore */ url)) as { default: { fetch: Origin } };
  origin = module.default.fetch;
});

const seeds = isFull ? [1, 2] : [1];
const count = isFull ? 1_000 : 250;

it.each(seeds)("both versions answer the fuzz test's requests from seed %i alike", async (seed) => {
  const { requests, unrepresentable } = await drawn(seed, count, deployment);
  expect(requests.length).toBeGreaterThan(count * 0.8);
  expect(unrepresentable).toBeLessThan(count * 0.2);
  const { answers, differences } = await compare(requests, origin);
  expect(differences.slice(0, 3).join("\n\n")).toBe("");
  const statuses = Map.groupBy(answers, ({ status }) => status);
  for (const status of [200, 400, 401, 403, 404, 422, 429]) {
    expect(statuses.get(status)?.length ?? 0).toBeGreaterThan(count / 100);
  }
  const logs = answers.flatMap(({ log }) => log);
  expect(logs.filter((line) => line.includes('"internal-error"'))).toEqual([]);
});

it("both versions answer the requests of the fuzz test alike when there are no objects", async () => {
  const open = { POLICIES: deployment.POLICIES.replaceAll('"closed"', '"open"') };
  const local = { POLICIES: deployment.POLICIES.replaceAll('"closed"', '"local"') };
  for (const other of [{}, open, local]) {
    const broken = { ...deployment, ...other, RATE_LIMITER: {} };
    // oxlint-disable-next-line no-await-in-loop
    const { requests } = await drawn(9, isFull ? 400 : 50, broken);
    // oxlint-disable-next-line no-await-in-loop
    const { differences } = await compare(requests, origin);
    expect(differences.slice(0, 3).join("\n\n")).toBe("");
  }
});
