/** An explanation in words: by part for the console, and as lines of plain text for a terminal. */
import { limitTotal, waitText } from "../../strategies/index.ts";
import type {
  ExplainedLevel,
  ExplainedLimit,
  ExplainedRule,
  ExplainedStep,
  ExplainedUnits,
  Explanation,
  ExplanationLines,
  NamedLine,
} from "../wire.ts";
import { isLimitsStep, limitsStepOf, stepsByName } from "./steps.ts";

/** The explanation of one level, without its words. */
export type Explained = Omit<Explanation, "text" | "lines" | "levels">;

/** @param levels all levels, the root first and `own` last; only `own` unless the policy is within another one */
export function explanationInWords(
  levels: readonly Explained[],
  own: Explained,
  missingAttributes: readonly string[],
): Explanation {
  const denying = levels.filter((level) => level !== own && !level.allowed);
  const whole = denying.length === 0 ? own : deniedBy(denying, own);
  const lines = explanationLines(whole, own, denying);
  return {
    ...whole,
    ...(levels.length > 1 && { levels: levels.map(levelOf) }),
    lines,
    text: explanationText(whole, lines, missingAttributes, levels),
  };
}

const levelOf = (level: Explained): ExplainedLevel => {
  const { policy, id, mode, allowed, reason, retryAfterMs, limits } = level;
  return { policy, id, mode, allowed, reason, retryAfterMs, limits, text: outcomeText(level) };
};

/** The outcome of a request that ancestors deny, whatever the level itself decides. */
function deniedBy(ancestors: readonly Explained[], own: Explained): Explained {
  const denying = [...ancestors, ...(own.allowed ? [] : [own])];
  const waits = denying.map(({ retryAfterMs }) => retryAfterMs);
  const changes = [own, ...ancestors].flatMap(({ nextChangeInMs }) => nextChangeInMs ?? []);
  return {
    ...own,
    allowed: false,
    reason: denying.at(-1)?.reason ?? own.reason,
    retryAfterMs: waits.includes(null) ? null : Math.max(...waits.map(Number)),
    nextChangeInMs: changes.length === 0 ? null : Math.min(...changes),
  };
}

/**
 * @param own the level that the explanation is about. Default: it has no ancestors
 * @param denying the ancestors that deny the request
 */
export function explanationLines(
  whole: Explained,
  own: Explained = whole,
  denying: readonly Explained[] = [],
): ExplanationLines {
  const { limits, steps, limitsFrom } = own;
  const deciding = denying.length > 0 ? [] : decidingLimits(own);
  const otherSteps = steps.filter(({ step }) => step !== "key-rule-limits");
  const totals = (denying.length > 0 ? denying.flatMap(decidingLimits) : deciding).map((limit) => `${totalOf(limit)}.`);
  return {
    outcome: denying.length === 0 ? outcomeText(own) : deniedText(whole, own, denying),
    usage: totals.length === 0 ? null : totals.join(" "),
    nextChange: nextChangeText(whole),
    open: openLines(own),
    limitsFrom: stepsByName[limitsFrom].cause,
    limitsWithoutKeyRulesFrom: stepsByName[limitsStepOf(otherSteps)].cause,
    limits: limits.map((limit) => ({ name: limit.name, text: limitText(limit, deciding.includes(limit)) })),
    steps: steps.map((step) => ({ name: stepsByName[step.step].title, text: resultText(step, own) })),
  };
}

/** Such as "Denied for another 12 s by org: the limit org is exceeded. The policy user alone allows it." */
function deniedText(whole: Explained, own: Explained, denying: readonly Explained[]): string {
  const time = whole.retryAfterMs === null ? "" : ` for another ${waitText(whole.retryAfterMs)}`;
  const causes = denying.map((level) => `${level.policy}: ${causeText(level)}`).join("; ");
  const alone = own.allowed
    ? `The policy ${own.policy} alone allows it.`
    : `The policy ${own.policy} denies it, too: ${causeText(own)}.`;
  return `Denied${time} by ${causes}. ${alone}`;
}

/**
 * @param missingAttributes the names of the attributes without which entries could not be compared
 * @param levels all levels, the root first
 */
function explanationText(
  explained: Explained,
  lines: ExplanationLines,
  missingAttributes: readonly string[],
  levels: readonly Explained[],
): readonly string[] {
  const { policy, mode, id, nextChangeInMs, limits, keyRules, policyRules } = explained;
  return [
    lines.outcome,
    `Policy ${policy} (${mode}), key ${id}.`,
    ...(nextChangeInMs === null ? [] : [lines.nextChange]),
    ...section("Levels (all must allow a request)", levels.length === 1 ? [] : levels.map(levelLine)),
    ...section(
      `Limits, from ${lines.limitsFrom}`,
      limits.map((limit) => `${limit.name}: ${limitText(limit, false)}`),
    ),
    ...section("Rules of this key", keyRules.map(ruleLine)),
    ...section("Rules of this policy", policyRules.map(ruleLine)),
    ...section("Open", lines.open),
    ...section("Steps (the first that matches decides)", lines.steps.map(stepLine)),
    ...section("Versions of the rules", versionLines(explained)),
    ...section("Notes", notesOf(explained, missingAttributes)),
  ];
}

/** Such as "org: org 5 of 5 used. Denied for another 12 s: the limit org is exceeded." */
function levelLine(level: Explained): string {
  const used = level.limits.map(({ name, used: units, capacity }) => `${name} ${units ?? "unknown"} of ${capacity}`);
  const usage = used.length === 0 ? "" : ` ${used.join(", ")} used.`;
  return `${level.policy}:${usage} ${outcomeText(level)}`;
}

/** When the request is allowed, only the end of a rule changes the outcome. */
function nextChangeText({ allowed, reason, nextChangeInMs, limits }: Explained): string {
  if (nextChangeInMs === null) {
    const waits = limits.filter(({ used }) => used !== null && used > 0).map(({ resetAfterMs }) => resetAfterMs ?? 0);
    const fullInMs = Math.max(0, ...waits);
    return fullInMs === 0
      ? "Without further requests, nothing changes."
      : `Without further requests, the outcome stays the same, and the key is full again in ${waitText(fullInMs)}.`;
  }
  const wait = waitText(nextChangeInMs);
  return allowed && reason !== "dry-run"
    ? `A rule behind this ends in ${wait}.`
    : `Without further requests, this changes in ${wait}.`;
}

/** The limits that deny, or the fullest one; none where no limit decides. */
function decidingLimits({ limits, reason }: Explained): readonly ExplainedLimit[] {
  if (reason === "allow" || reason === "off" || reason === "deny" || reason === "ban") return [];
  const counted = limits.filter(({ account }) => account !== null);
  const denying = counted.filter(({ allowed }) => !allowed);
  if (denying.length > 0) return denying;
  return counted.toSorted((one, other) => share(one) - share(other)).slice(0, 1);
}

/** Empty while the key's object does not answer. */
const totalOf = (limit: ExplainedLimit): string => {
  const { used, account: terms } = limit;
  return used === null || terms === null ? "" : limitTotal(limit, { used, terms });
};

const share = ({ remaining, capacity }: ExplainedLimit): number => remaining / capacity;

/** @param isShort leaves out the total, which `usage` states */
function limitText(limit: ExplainedLimit, isShort: boolean): string {
  const { sentence, remaining, capacity } = limit;
  if (sentence === null) {
    return `The key's object does not answer; ${remaining} of ${capacity} remain in this isolate's estimate.`;
  }
  // In the sentence, a colon or a semicolon and a space follow the total.
  return isShort ? sentence.slice(totalOf(limit).length + 2) : sentence;
}

const section = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [`${title}:`, ...lines.map((line) => `  ${line}`)];

function outcomeText(explained: Explained): string {
  const { allowed, mode, reason, retryAfterMs, onError } = explained;
  if (reason === "off") return "Allowed, not charged: the policy is off.";
  if (reason === "dry-run") {
    return `Allowed, because the policy is in dry run. Enforced, it would deny${unless(explained, false)}: ${causeText(explained)}.`;
  }
  // A dry run allows the request whichever entry applies.
  const exception = mode === "dry-run" ? "" : unless(explained, allowed);
  if (reason === "allow") return `Allowed, not charged${exception}: ${causeText(explained)}.`;
  if (reason === "object-silent") {
    return `${allowed ? "Allowed" : "Denied"} by onError = "${onError}"${exception}: the key's object does not answer.`;
  }
  if (allowed && explained.limits.length === 0) {
    return `No rule denies it${exception}, but the limits of a request are not known: the Worker's code states them.`;
  }
  if (allowed) return `Allowed${exception}: every limit has room.`;
  const time = retryAfterMs === null ? "" : ` for another ${waitText(retryAfterMs)}`;
  return `Denied${time}${exception}: ${causeText(explained)}.`;
}

/**
 * The condition of an outcome that entries with an unknown match could change; "" when no step before the deciding one
 * has such entries.
 */
function unless({ steps }: Explained, allowed: boolean): string {
  const deciding = steps.findIndex(({ decides }) => decides);
  const isOpen = steps.slice(0, deciding).some(({ step, matches }) => {
    const { comparedParts, effect } = stepsByName[step];
    return matches === null && comparedParts !== undefined && effect !== (allowed ? "allow" : "deny");
  });
  return isOpen ? ", unless an entry that is not known applies" : "";
}

/** Why the step that decides leads to its outcome. */
function causeText(explained: Explained): string {
  const { steps, limits, reason } = explained;
  const deciding = steps.find(({ decides }) => decides);
  if (deciding !== undefined && !isLimitsStep(deciding.step)) {
    return `${stepsByName[deciding.step].cause}${sourceText(deciding, explained)}`;
  }
  const names = limits.filter(({ allowed }) => !allowed).map(({ name }) => name);
  const named = `the limit${names.length === 1 ? "" : "s"} ${names.join(", ")}`;
  if (reason === "share") return `other keys are guaranteed the rest of ${named}`;
  if (reason === "class") return `the class of the request may not use the rest of ${named}`;
  if (reason === "keys") return "the root has too many keys in use for a new one";
  return `${named} ${names.length === 1 ? "is" : "are"} exceeded`;
}

/** The author and the note of the rule, or its id while the control plane does not answer; and the entry, counted from 1. */
function sourceText({ rule, entry }: ExplainedStep, { keyRules, policyRules }: Explained): string {
  const known = [...keyRules, ...policyRules].find(({ id }) => id === rule);
  const { actor = null, note = null } = known ?? {};
  const named = actor === null ? `rule ${rule}` : `rule by ${actor}${note === null ? "" : `: ${note}`}`;
  const parts = [...(rule === null ? [] : [named]), ...(entry === null ? [] : [`entry ${entry + 1}`])];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

/** The result of a step, such as "decides (rule by ops: abuse)". */
function resultText(step: ExplainedStep, explained: Explained): string {
  const { matches, decides } = step;
  if (matches === null) return `not known, because ${unknownText(step, explained)}`;
  if (!matches) return "no match";
  return `${decides ? "decides" : "matches, but an earlier step decides"}${sourceText(step, explained)}`;
}

function unknownText({ step }: ExplainedStep, { isKeyKnown }: Explained): string {
  if (step === "ban" || step.startsWith("key-rule-")) return "the object of the key does not answer";
  return isKeyKnown ? "its entries compare an attribute that is not given" : "only the id of the key is given";
}

const stepColumns = Math.max(...Object.values(stepsByName).map(({ title }) => title.length));

const stepLine = ({ name, text }: NamedLine, index: number): string =>
  `${String(index + 1).padStart(2)}. ${name.padEnd(stepColumns)} ${text}`;

const stateTexts: Readonly<Record<ExplainedRule["state"], string>> = {
  "in-effect": "",
  pending: "not in effect yet, ",
  orphan: "without effect, ",
};

function ruleLine({ id, kind, factor, expiresInMs, state, actor, note }: ExplainedRule): string {
  const boost = factor === undefined ? "" : ` ${factor}x`;
  const end = expiresInMs === null ? "no expiry" : `expires in ${waitText(expiresInMs)}`;
  const author = actor === null ? "" : `, by ${actor}`;
  const reason = note === null ? "" : `: ${note}`;
  return `${kind}${boost} (rule ${id}), ${stateTexts[state]}${end}${author}${reason}`;
}

function openLines({ bannedForMs, reservations, slices }: Explained): string[] {
  return [
    ...(bannedForMs > 0 ? [`A ban denies the key for ${waitText(bannedForMs)} more.`] : []),
    ...unitLines("open reservation", reservations),
    ...unitLines("slice", slices).map((line) => `${line} ${lentMeaning}`),
  ];
}

const lentMeaning =
  "A slice is lent to an isolate, a running instance of the Worker, which decides requests by it without asking the object of the key. Lent units count as used.";

function unitLines(what: string, open: ExplainedUnits | null): string[] {
  if (open === null || open.count === 0) return [];
  const { count, units, nextEndInMs } = open;
  const end = nextEndInMs === null ? "" : `; the first ends in ${waitText(nextEndInMs)}`;
  return [`${counted(count, what)} with ${counted(units, "unit")}${end}.`];
}

const counted = (number: number, name: string): string =>
  `${number.toLocaleString("en-US")} ${name}${number === 1 ? "" : "s"}`;

function versionLines({ versions }: Explained): string[] {
  const { isolate, controlPlane, object, key } = versions;
  const named = {
    "this isolate": isolate,
    "control plane": controlPlane,
    "object of the key": object,
    "rules of the key": key,
  };
  return Object.entries(named).flatMap(([name, version]) =>
    version === null ? [] : [`${name}: ${version.version} (epoch ${version.epoch})`],
  );
}

const consistencyNotes = {
  leased: "With consistency = leased, isolates decide by the units that are lent to them.",
  eventual: "With consistency = eventual, isolates may have spends that the object does not count yet.",
} as const;

/** The attributes as the body of a call has them. */
const attributesText = (names: readonly string[]): string =>
  `attributes: {${names.map((name) => `${JSON.stringify(name)}: "…"`).join(", ")}}`;

function notesOf(explained: Explained, missingAttributes: readonly string[]): string[] {
  const { isKeyKnown, hasObjectAnswered, consistency, versions, steps } = explained;
  const { isolate, controlPlane } = versions;
  const isBehind =
    isolate !== null &&
    controlPlane !== null &&
    (isolate.epoch !== controlPlane.epoch || isolate.version < controlPlane.version);
  const isOpen = steps.some(({ matches }) => matches === null);
  return [
    ...(!isKeyKnown && isOpen
      ? [
          "Only the id of the key is given, so entries of lists and overrides could not be compared. Give the key to compare them.",
        ]
      : []),
    ...(missingAttributes.length > 0
      ? [`To compare the entries that are not known, send ${attributesText(missingAttributes)}.`]
      : []),
    ...(hasObjectAnswered ? [] : ["The key's object does not answer: its bans, rules and counts are not known."]),
    ...(consistency === "strict" ? [] : [consistencyNotes[consistency]]),
    ...(isolate !== null && controlPlane === null
      ? ["The control plane does not answer: the actors and notes of rules are not known."]
      : []),
    ...(isBehind ? ["This isolate does not have the newest rules of the policy yet."] : []),
  ];
}
