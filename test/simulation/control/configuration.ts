/** The configurations of simulated deployments, with the facts about them that naive references need. */
import { parseConfig } from "../../../src/policy/vars/config.ts";
import type { Policy } from "../../../src/policy/policy.ts";
import type { Random } from "../../random.ts";

/** The window of all limits. It is longer than a short simulation, so that all units of the simulation count. */
export const windowMs = 3_600_000;

export const keyTexts = ["a", "b", "c", "d"] as const;

/** A key of the right form: 43 characters of base64url. */
export const partitionKeyOf = (text: string): string => text.repeat(43);

export interface PolicyFacts {
  readonly name: string;
  readonly limit: number;
  readonly consistency: "strict" | "leased" | "eventual";
  readonly onError: "local" | "open" | "closed";
  readonly isSharded: boolean;
  readonly hasBan: boolean;
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** The limits of overrides, by key. */
  readonly overrides: Readonly<Record<string, number>>;
}

export interface DeployedPolicy {
  readonly facts: PolicyFacts;
  readonly policy: Policy;
}

export const pick = <Item>(random: Random, items: readonly Item[]): Item => {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("there is nothing to pick from");
  return item;
};

const someKeys = (random: Random, share: number): string[] => keyTexts.filter(() => random() < share);

function drawFacts(random: Random, name: string, isSharded: boolean): PolicyFacts {
  const isStrict = name === "p" || random() < 0.4;
  const other = random() < 0.5 ? ("leased" as const) : ("eventual" as const);
  const isListed = random() < 0.3;
  return {
    name,
    limit: pick(random, [5, 10, 40]),
    consistency: isStrict ? "strict" : other,
    onError: pick(random, ["local", "open", "closed"]),
    isSharded,
    hasBan: isStrict && random() < 0.15,
    allow: isListed ? someKeys(random, 0.15) : [],
    deny: isListed ? someKeys(random, 0.15) : [],
    overrides: isListed ? Object.fromEntries(someKeys(random, 0.25).map((key) => [key, pick(random, [3, 21])])) : {},
  };
}

/** The policies are parsed once for all simulations: parsing takes longer than a simulated request. */
const parsed = new Map<string, readonly Policy[]>();

const hourly = (limit: number): string => `${limit}/hour`;

const writtenOf = (facts: PolicyFacts): object => ({
  name: facts.name,
  key: "header:x-user",
  limits: hourly(facts.limit),
  strategy: "sliding-log",
  consistency: facts.consistency,
  onError: facts.onError,
  timeout: "600ms",
  objects: facts.isSharded ? "sharded" : "per-key",
  ...(facts.isSharded && { shards: 2 }),
  ...(facts.hasBan && { ban: { after: 4, within: "30s", for: "8s" } }),
  ...(facts.allow.length > 0 && { allow: facts.allow }),
  ...(facts.deny.length > 0 && { deny: facts.deny }),
  ...(Object.keys(facts.overrides).length > 0 && {
    overrides: Object.entries(facts.overrides).map(([key, limit]) => ({
      key,
      limits: hourly(limit),
    })),
  }),
});

function parse(all: readonly PolicyFacts[]): readonly Policy[] {
  const written = all.map(writtenOf);
  const text = JSON.stringify(written);
  const policies = parsed.get(text) ?? parseConfig({ KEY_SECRET: "s", POLICIES: written }).policies;
  parsed.set(text, policies);
  return policies;
}

/** The deployments, the newest first. The older one has other limits and lists, and sometimes other objects. */
export function drawDeployments(random: Random): readonly (readonly DeployedPolicy[])[] {
  const isSharded = [random() < 0.5, random() < 0.5];
  return [0, 1].map((age) => {
    const isMoved = age === 1 && random() < 0.2;
    const facts = ["p", "q"].map((name, index) => drawFacts(random, name, (isSharded[index] === true) !== isMoved));
    const policies = parse(facts);
    return facts.flatMap((each, index) => {
      const policy = policies[index];
      return policy === undefined ? [] : [{ facts: each, policy }];
    });
  });
}
