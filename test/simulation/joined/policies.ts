/**
 * The policies of simulated requests. Their second limit never denies, and the number of its units identifies the
 * request.
 */
import type { Policy } from "../../../src/policy/policy.ts";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { policyWith } from "../schedule.ts";

const tag = { limit: 1_000_000_000, window: "1d", strategy: "fixed-window" };

const withFields = (name: string, limit: object, fields: object = {}): Policy =>
  policyWith({ name, limits: [limit, tag], denyCache: false, ...fields });

const log = { limit: 30, window: "1s", strategy: "sliding-log" };

const templates = {
  local: withFields("local", log),
  open: withFields("open", { ...log, strategy: "fixed-window" }, { onError: "open" }),
  closed: withFields("closed", { ...log, strategy: "token-bucket" }, { onError: "closed" }),
  confirmed: withFields("confirmed", log, { durability: "confirmed", onError: "closed" }),
  dry: withFields("dry", { ...log, limit: 10 }, { dryRun: true }),
  tight: withFields("tight", { ...log, limit: 3 }, { onError: "closed" }),
  banning: withFields(
    "banning",
    { ...log, limit: 5, strategy: "sliding-window-counter" },
    { ban: { after: 5, within: "1s", for: "2s" }, onError: "closed" },
  ),
  cached: withFields("cached", { ...log, limit: 6 }, { denyCache: true }),
  ruled: withFields("ruled", log, { onError: "open" }),
  sharded: withFields("sharded", log, { objects: "sharded", shards: 2, onError: "closed" }),
  counted: withFields("counted", log, { objects: "sharded", shards: 1, onError: "local" }),
} as const;

export type PolicyName = keyof typeof templates | "broken";

/** A policy with a strategy that objects do not know, so that only the checks of this policy fail. */
const broken: Policy = {
  ...templates.closed,
  name: "broken",
  limits: templates.closed.limits.map((limit, index) =>
    index === 0 ? { ...limit, strategy: "of a newer version" } : limit,
  ),
};

export const templateOf = (name: PolicyName): Policy => (name === "broken" ? broken : templates[name]);

/** The rules of a version. Each version has a different text. */
const rulesOf = (version: number) => ({ epoch: 1, version, text: `[{"id":"r${version}"}]` });

/** @param version the version of the rules of the policy `ruled`; other policies have no rules */
export function policyOfRequest(
  name: PolicyName,
  request: number,
  { timeoutMs, version }: { readonly timeoutMs: number; readonly version: number },
): Policy {
  const template = templateOf(name);
  const limits = template.limits.map((limit, index) =>
    index === 1 ? { ...limit, limit: tag.limit + request } : limit,
  );
  return { ...template, limits, timeoutMs, rules: name === "ruled" ? rulesOf(version) : null };
}

/** The number of the request that made a charge. */
export const requestOf = ({ limits }: Pick<Charge, "limits">): number => (limits[1]?.limit ?? tag.limit) - tag.limit;
