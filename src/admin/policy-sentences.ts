/** Describes a policy in effect in sentences, by part and in the order in which a request meets the parts. */
import { partName, type KeyPart } from "../policy/key.ts";
import { limitLists, type Policy } from "../policy/policy.ts";
import { modeOf } from "../policy/runtime-rules.ts";
import { compiledLimit, isQueue, type Limit, spanText, waitText } from "../strategies/index.ts";
import type { PolicyMode, PolicyPart, PolicyPartText } from "./wire.ts";

/** Lists may hold secrets, so only their lengths are stated. Values of headers in `match` are left out for the same reason. */
export function policySentences(policy: Policy): readonly PolicyPartText[] {
  return parts.flatMap(({ part, title, textsOf }) => {
    const sentences = textsOf(policy);
    return sentences.length === 0 ? [] : { part, title, sentences };
  });
}

interface Part {
  readonly part: PolicyPart;
  readonly title: string;
  /** Empty for a part that the policy does not have. */
  readonly textsOf: (policy: Policy) => string[];
}

const parts: readonly Part[] = [
  { part: "mode", title: "Mode", textsOf: (policy) => [modeTexts[modeOf(policy)]] },
  { part: "match", title: "Requests", textsOf: matchTexts },
  { part: "key", title: "Key", textsOf: keyTexts },
  { part: "deny", title: "Deny entries", textsOf: denyTexts },
  { part: "allow", title: "Allow entries", textsOf: allowTexts },
  { part: "missing-key", title: "Missing key parts", textsOf: missingKeyTexts },
  { part: "ban", title: "Ban", textsOf: banTexts },
  { part: "limits", title: "Limits", textsOf: (policy) => [...limitsTexts(policy), ...priorityTexts(policy)] },
  { part: "overrides", title: "Overrides", textsOf: overridesTexts },
  { part: "cost", title: "Cost", textsOf: costTexts },
  { part: "delay", title: "Delay", textsOf: delayTexts },
  { part: "object", title: "Decision", textsOf: objectTexts },
  { part: "failure", title: "If the object does not answer", textsOf: failureTexts },
  { part: "denial", title: "Answer to a denied request", textsOf: denialTexts },
];

const modeTexts: Readonly<Record<PolicyMode, string>> = {
  enforce: "The policy is enforced: a request that exceeds a limit is denied.",
  "dry-run":
    "The policy is in dry run: it decides, counts and reports, but never denies, delays or bans. The sentences below say what it does when it is enforced.",
  off: "The policy is off: it has no effect and counts nothing. The sentences below say what it does when it is enforced.",
};

function matchTexts({ ancestors, match: { methods, path, host, headers, pathMatching } }: Policy): string[] {
  const names = andList(ancestors.map(({ policy }) => policy));
  const apply = ancestors.length === 1 ? "applies" : "apply";
  const conditions = [
    ...(path === null ? [] : [`with the path ${path.pathname}`]),
    ...(host === null ? [] : [`for the host ${host.hostname}`]),
    ...[...(headers ?? [])].map(([name, value]) =>
      value === true ? `with a header ${name}` : `with the configured value of the header ${name}`,
    ),
  ];
  const requests = methods === null ? "all requests" : `${orList([...methods])} requests`;
  const pathText =
    pathMatching === "exact"
      ? "The path is compared exactly as received."
      : "The path is compared in every form in which an origin may read it.";
  return [
    `The policy applies to ${[requests, ...conditions].join(" ")}${ancestors.length === 0 ? "." : `, if ${names} ${apply} too.`}`,
    ...(methods?.has("GET") === true && !methods.has("HEAD") ? ["GET includes HEAD."] : []),
    ...(path === null ? [] : [pathText]),
    "If several policies apply to a request, all of them must allow it.",
    ...(ancestors.length === 0
      ? []
      : [`The policy is within ${names}: a request is charged to all of them or to none.`]),
  ];
}

const partTexts: Readonly<Record<KeyPart["kind"], string>> = {
  ip: "client address",
  path: "path",
  method: "method",
  host: "host",
  country: "country",
  continent: "continent",
  asn: "network (ASN)",
  colo: "Cloudflare data center",
  global: "",
  custom: "value of the Worker's function",
  header: "header",
  cookie: "cookie",
  query: "query parameter",
  jwt: "verified token claim",
};

const partText = (part: KeyPart): string =>
  "name" in part ? `${partTexts[part.kind]} ${part.name}` : partTexts[part.kind];

function keyTexts({ key, onMissingKey, addresses: { ipv6Prefix, trustedProxies } }: Policy): string[] {
  const distinguishing = key.filter(({ kind }) => kind !== "global");
  const [first, ...others] = distinguishing.map(partText);
  if (first === undefined) return ["All requests share one key, and so one count."];
  const subject = others.length === 0 ? first : `combination of ${andList([first, ...others])}`;
  const usesAddress = onMissingKey === "ip" || key.some(({ kind }) => kind === "ip");
  const addressText =
    trustedProxies === null
      ? "The client address is the one that connects to Cloudflare."
      : `The client address is entry ${trustedProxies} of X-Forwarded-For, counted from the right.`;
  return [
    `Each ${subject} is a key with a count of its own.`,
    ...(usesAddress ? [addressText, `IPv6 addresses with the same first ${ipv6Prefix} bits are one client.`] : []),
  ];
}

/** The guarantees of keys, and the classes of requests that may use only a part of the limits. */
function priorityTexts({ share, weight, weights, classes }: Policy): string[] {
  const texts: string[] = [];
  if (share !== null) {
    const { parent, guaranteed } = share;
    const whole = `a limit of ${parent}`;
    texts.push(
      guaranteed === "fair"
        ? `Each active key is guaranteed a part of ${whole}, in proportion to the weights of all active keys.`
        : `Each active key is guaranteed ${numberText(guaranteed)} units of ${whole}.`,
    );
    if (weights.length > 0 || weight !== 1) {
      const others = weights.length === 0 ? "" : `, unless ${entryCount(weights.length, "condition")} gives another`;
      texts.push(`The weight of a key is ${numberText(weight)}${others}.`);
    }
  }
  if (classes.length > 0) {
    const percentages = [...new Set(classes.map(({ upTo }) => upTo))].toSorted((one, other) => one - other);
    texts.push(
      `Requests of ${entryCount(classes.length, "class")} may use each limit only up to ${orList(percentages.map((upTo) => `${upTo} %`))}.`,
    );
  }
  return texts;
}

const entryCount = (count: number, noun: "class" | "condition"): string =>
  count === 1 ? `one ${noun}` : `${numberText(count)} ${noun}${noun === "class" ? "es" : "s"}`;

type ListName = "allow" | "deny" | "overrides";

/** For example "one of 3 entries (1 of the configuration, 2 of rules)"; null without entries. */
function entriesText({ lists, ruleLists }: Policy, list: ListName, one: string, many: string): string | null {
  const [configured, ruled] = [lists[list].length, ruleLists[list].length];
  const all = configured + ruled;
  if (all === 0) return null;
  const sources = configured === 0 || ruled === 0 ? "" : ` (${ruled} of rules, ${configured} of the configuration)`;
  return all === 1 ? `the ${one}` : `one of ${numberText(all)} ${many}${sources}`;
}

function denyTexts(policy: Policy): string[] {
  const entries = entriesText(policy, "deny", "entry", "entries");
  return [
    entries === null ? "There are no deny entries." : `A request that matches ${entries} is denied with status 403.`,
  ];
}

function allowTexts(policy: Policy): string[] {
  const entries = entriesText(policy, "allow", "entry", "entries");
  return entries === null
    ? ["There are no allow entries."]
    : [`A request that matches ${entries} is allowed and not charged.`];
}

/** The parts that every request has. */
const presentParts: ReadonlySet<KeyPart["kind"]> = new Set(["global", "path", "method", "host"]);

const missingKeyResults = {
  shared: "shares one key with all others that lack it",
  ip: "is charged to its client address instead",
  deny: "is denied with status 403",
  skip: "is allowed and not charged",
} as const satisfies Readonly<Record<Policy["onMissingKey"], string>>;

function missingKeyTexts({ key, ancestors, onMissingKey }: Policy): string[] {
  const own = key.slice(ancestors.at(-1)?.keyParts ?? 0);
  const missable = own.filter(({ kind }) => !presentParts.has(kind));
  if (missable.length === 0) return [];
  return [`A request without ${orList(missable.map(partName))} ${missingKeyResults[onMissingKey]}.`];
}

function banTexts({ ban }: Policy): string[] {
  const [strikes] = ban?.strikes ?? [];
  const [term] = ban?.term ?? [];
  if (strikes === undefined || term === undefined) return [];
  const { limit, windowMs } = strikes;
  const cause = limit === 1 ? "a denial" : `${numberText(limit)} denials within ${spanText(windowMs, "1 ")}`;
  return [`After ${cause} by the limits below, a key is banned for ${spanText(term.windowMs, "1 ")}.`];
}

function limitsTexts(policy: Policy): string[] {
  const { limits, cost, name } = policy;
  if (limits.length === 0) return ["The Worker's code states the limits of each request."];
  const unit = cost.kind === "fixed" && cost.units === 1 ? "request" : "unit";
  return [
    ...limits.map((limit) => limitSentence(limit, unit, name)),
    ...(limits.length === 1
      ? []
      : ["A request is allowed only if all limits allow it, and otherwise charged to none of them."]),
  ];
}

/** For example "At most 5 requests per minute (sliding-log): each counts until it is exactly 1 minute old." */
function limitSentence(limit: Limit, unit: string, policy: string): string {
  const { strategy, name, windowMs, period } = limit;
  const { capacity, limit: complete } = compiledLimit(limit);
  const options: Readonly<Record<string, unknown>> = { ...complete };
  const label = `(${strategy}${name === policy ? "" : `, ${name}`})`;
  const rate = `${counted(limit.limit, unit)} per ${period === undefined ? spanText(windowMs) : `calendar ${period}`}`;
  switch (strategy) {
    case "fixed-window":
      return `At most ${rate} ${label}: ${fixedWindowText(limit, options)}.`;
    case "sliding-window-counter": {
      const aligned = options["align"] === "clock" ? ", and windows are aligned to the clock" : "";
      return `At most ${rate} ${label}: estimated from the counts of this window and the one before${aligned}.`;
    }
    case "sliding-buckets": {
      const edge = options["edge"] === "drop" ? "start" : "end";
      const bucket = spanText(Number(options["bucketMs"]), "1 ");
      return `At most ${rate} ${label}: counted in buckets of ${bucket}, each until its ${edge} is ${spanText(windowMs, "1 ")} old.`;
    }
    case "sliding-log":
      return `At most ${rate} ${label}: each counts until it is exactly ${spanText(windowMs, "1 ")} old.`;
    case "token-bucket":
      return options["refill"] === "interval"
        ? `At most ${counted(capacity, unit)} at once ${label}; ${numberText(limit.limit)} are refilled at the end of each ${spanText(windowMs)}.`
        : `At most ${counted(capacity, unit)} at once ${label}; they are refilled at ${rate}.`;
    case "leaky-bucket":
      return isQueue(limit)
        ? `${rate} pass, evenly spaced, and at most ${numberText(capacity - 1)} more wait ${label}.`
        : `At most ${counted(capacity, unit)} at once ${label}; they drain at ${rate}.`;
    case "concurrency":
      return `At most ${counted(limit.limit, unit)} at once ${label}: a slot is free again when its request ends, or after ${spanText(windowMs, "1 ")}.`;
    default:
      return `At most ${rate} ${label}.`;
  }
}

function fixedWindowText({ period }: Limit, { align, timezone, elastic }: Readonly<Record<string, unknown>>): string {
  if (align === "calendar") return `the count begins again with each ${period} in the time zone ${String(timezone)}`;
  if (align === "clock") return "windows are aligned to the clock";
  const restart = elastic === true ? ", and each denied request restarts it" : "";
  return `a window begins with the first request of a key${restart}`;
}

function overridesTexts(policy: Policy): string[] {
  const overrides = entriesText(policy, "overrides", "override", "overrides");
  return [
    overrides === null
      ? "There are no overrides."
      : `A request that matches ${overrides} has the limits of the first match instead.`,
    ...(policy.rules === null
      ? []
      : ["A rule of a single key comes first: it blocks the key, allows it without charge, or gives it other limits."]),
  ];
}

function costTexts({ cost, count }: Policy): string[] {
  switch (cost.kind) {
    case "fixed":
      return [`A request is charged ${counted(cost.units, "unit")}.`, ...countTexts(count)];
    case "request": {
      const source = cost.from === "header" ? `header ${cost.name}` : `query parameter ${cost.name}`;
      return [
        `A request is charged the number in its ${source}, from 1 to ${counted(cost.max, "unit")}.`,
        `Without a number it is charged 1 unit, and with any other text ${counted(cost.max, "unit")}.`,
        ...countTexts(count),
      ];
    }
    case "response":
      return [
        `A request reserves ${counted(cost.reserve, "unit")}. The response replaces them by the number in its header ${cost.name}, at most ${numberText(cost.max)}.`,
        "Without a number in the response, the reserved units stay charged.",
        ...countTexts(count),
      ];
    default:
      return cost satisfies never;
  }
}

function countTexts(count: Policy["count"]): string[] {
  if (count === null) return [];
  const statuses = orList(count.statuses.map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`)));
  return [
    count.isExcept
      ? `A request is refunded if its response has the status ${statuses}.`
      : `A request is refunded unless its response has the status ${statuses}.`,
  ];
}

function delayTexts(policy: Policy): string[] {
  const queues = limitLists(policy).flat().filter(isQueue);
  if (queues.length === 0) return [];
  const longest = waitText(Math.max(...queues.map(longestDelayMs)));
  return [`An allowed request waits for its turn, for at most ${longest}. One that would wait longer is denied.`];
}

function longestDelayMs(queue: Limit): number {
  const { limit } = compiledLimit(queue);
  const [burst, maxDelayMs] = ["burst", "maxDelayMs"].map((name) => Number(Reflect.get(limit, name) ?? Infinity));
  return Math.ceil(Math.min(maxDelayMs ?? Infinity, ((burst ?? 0) * queue.windowMs) / queue.limit));
}

function objectTexts({ ancestors, consistency, objects, durability, isDenyCached }: Policy): string[] {
  const { shards, locationHint, jurisdiction } = objects;
  const root = ancestors[0] === undefined ? "" : ` of ${ancestors[0].policy}`;
  const places = [
    ...(locationHint === null ? [] : [`in the region ${locationHint}`]),
    ...(jurisdiction === null ? [] : [`in the jurisdiction ${jurisdiction}`]),
  ];
  const place = places.length === 0 ? "" : ` ${places.join(" and ")}`;
  return [
    shards === null
      ? `Each key${root} has a Durable Object${place}.`
      : `All keys share ${counted(shards, "Durable Object")}${place}.`,
    consistencyText(consistency),
    ...(isDenyCached
      ? ["A running copy of the Worker may repeat a denial for up to 1 second without asking the object."]
      : []),
    durability === "confirmed"
      ? "An answer waits until its charge is stored."
      : "An answer does not wait for storage, so a crash can lose charges of the last second.",
  ];
}

function consistencyText(consistency: Policy["consistency"]): string {
  switch (consistency.kind) {
    case "strict":
      return "The object decides each request (strict), so the limits are exact.";
    case "leased":
      return "Running copies of the Worker decide by units that the object lends them (leased): no limit is exceeded, but a request may be denied early.";
    case "eventual": {
      const every = spanText(consistency.syncEveryMs, "1 ");
      return `Running copies of the Worker decide by their own copy of the counts, which they synchronize every ${every} (eventual). Meanwhile, several of them may together exceed the limits.`;
    }
    default:
      return consistency satisfies never;
  }
}

const failureResults = {
  local: "the running copy of the Worker decides by the same limits with counters of its own, without bans",
  open: "the request is allowed",
  closed: "the request is denied with status 503",
} as const satisfies Readonly<Record<Policy["onError"], string>>;

function failureTexts({ onError, timeoutMs }: Policy): string[] {
  return [`After ${spanText(timeoutMs, "1 ")} without an answer, ${failureResults[onError]}.`];
}

function denialTexts({ onDeny }: Policy): string[] {
  const { status = 429, body = null, contentType = "" } = onDeny ?? {};
  const content =
    body === null
      ? "problem details (JSON)"
      : `a configured text of ${counted(new TextEncoder().encode(body).length, "byte")} (${contentType})`;
  return [`A denial by a limit or a ban has the status ${status}, Retry-After, and ${content}.`];
}

const numberText = (value: number): string => value.toLocaleString("en-US");

const counted = (count: number, noun: string): string => `${numberText(count)} ${noun}${count === 1 ? "" : "s"}`;

const orList = (items: readonly string[]): string => listText(items, "or");
const andList = (items: readonly string[]): string => listText(items, "and");

const listText = (items: readonly string[], word: string): string =>
  items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`;
