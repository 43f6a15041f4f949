/** The lines of an explanation, for a terminal or a web page. The first line is the outcome. */
import { waitText } from "../strategies/index.ts";
import { stepNames } from "./explain-key.ts";
import type { ExplainedRule, ExplainedStep, ExplainedUnits, Explanation, LimitsStep, StepName } from "./wire.ts";

type Explained = Omit<Explanation, "text">;

/** @param missingAttributes the names of the attributes without which entries could not be compared */
export function explanationText(explained: Explained, missingAttributes: readonly string[]): readonly string[] {
  const { policy, mode, id } = explained;
  return [
    headline(explained),
    `Policy ${policy} (${mode}), key ${id}.`,
    ...nextChangeLines(explained),
    ...section(`Limits, from ${givers[explained.limitsFrom]}`, limitLines(explained)),
    ...section("Rules of this key", explained.keyRules.map(ruleLine)),
    ...section("Rules of this policy", explained.policyRules.map(ruleLine)),
    ...section("Open", openLines(explained)),
    ...section("Steps (the first that matches decides)", explained.steps.map(stepLine)),
    ...section("Versions of the rules", versionLines(explained)),
    ...section("Notes", notesOf(explained, missingAttributes)),
  ];
}

/** The outcome of an allowed request depends only on the ends of rules. */
function nextChangeLines({ allowed, reason, nextChangeInMs }: Explained): string[] {
  if (nextChangeInMs === null) return [];
  const wait = waitText(nextChangeInMs);
  return allowed && reason !== "dry-run"
    ? [`A rule behind this ends in ${wait}.`]
    : [`Without further requests, this changes in ${wait}.`];
}

const section = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [`${title}:`, ...lines.map((line) => `  ${line}`)];

function headline(explained: Explained): string {
  const { allowed, mode, reason, retryAfterMs, onError } = explained;
  if (reason === "off") return "Allowed, not charged: the policy is off.";
  if (reason === "dry-run") {
    return `Allowed, because the policy is in dry run. Enforced, it would deny${unless(explained, false)}: ${denialText(explained)}.`;
  }
  // A dry run allows the request whichever entry applies.
  const exception = mode === "dry-run" ? "" : unless(explained, allowed);
  if (reason === "allow") return `Allowed, not charged${exception}: ${decidingText(explained)}.`;
  if (reason === "object-silent") {
    return `${allowed ? "Allowed" : "Denied"} by onError = "${onError}"${exception}: the key's object does not answer.`;
  }
  if (allowed && explained.limits.length === 0) {
    return `No rule denies it${exception}, but the limits of a request are not known: the Worker's code states them.`;
  }
  if (allowed) return `Allowed${exception}: every limit has room.`;
  const time = retryAfterMs === null ? "" : ` for another ${waitText(retryAfterMs)}`;
  return `Denied${time}${exception}: ${denialText(explained)}.`;
}

/** "" when no entry that could change the outcome comes before the step that decides without being known. */
function unless({ steps }: Explained, allowed: boolean): string {
  const earlier = steps.slice(
    0,
    steps.findIndex(({ decides }) => decides),
  );
  const isOpen = earlier.some(
    ({ step, matches }) => matches === null && entrySteps[allowed ? "allowed" : "denied"].has(step),
  );
  return isOpen ? ", unless an entry that is not known applies" : "";
}

const overrideSteps = ["policy-rule-overrides", "configured-overrides"] as const;

/** The steps with entries that can change an outcome. */
const entrySteps: Readonly<Record<"allowed" | "denied", ReadonlySet<StepName>>> = {
  allowed: new Set(["policy-rule-deny", "configured-deny", ...overrideSteps]),
  denied: new Set(["policy-rule-allow", "configured-allow", ...overrideSteps]),
};

function denialText(explained: Explained): string {
  const { steps, limits } = explained;
  const deciding = steps.find(({ decides }) => decides);
  if (deciding === undefined || !givesLimits(deciding.step)) return decidingText(explained);
  const names = limits.filter(({ allowed }) => !allowed).map(({ name }) => name);
  return names.length === 1 ? `the limit ${names.join("")} is exceeded` : `the limits ${names.join(", ")} are exceeded`;
}

const givesLimits = (step: StepName): boolean => stepNames.indexOf(step) >= stepNames.indexOf("key-rule-limits");

function decidingText({ steps, keyRules, policyRules }: Explained): string {
  const deciding = steps.find(({ decides }) => decides);
  if (deciding === undefined) return "no step decides";
  const rule = [...keyRules, ...policyRules].find(({ id }) => id === deciding.rule);
  return `${reasons[deciding.step]}${authorText(rule) ?? sourceText(deciding)}`;
}

/** The author and the note of a rule; null while the control plane does not answer. */
function authorText(rule: ExplainedRule | undefined): string | null {
  const { actor = null, note = null } = rule ?? {};
  if (actor === null) return null;
  return ` (by ${actor}${note === null ? "" : `: ${note}`})`;
}

/** Why a step decides. */
const reasons: Readonly<Record<StepName, string>> = {
  mode: "the policy is off",
  "policy-rule-deny": "the key matches a deny entry of a policy rule",
  "policy-rule-allow": "the key matches an allow entry of a policy rule",
  "configured-deny": "the key is on the deny list of the configuration",
  "configured-allow": "the key is on the allow list of the configuration",
  "missing-key": "a part of the key is missing, and onMissingKey applies",
  ban: "the key is banned",
  "key-rule-block": "a rule blocks the key",
  "key-rule-allow": "a rule allows the key",
  "key-rule-limits": "a rule gives the limits of the key",
  "policy-rule-overrides": "an override of a policy rule gives the limits",
  "configured-overrides": "an override of the configuration gives the limits",
  "policy-rule-limits": "a policy rule gives the limits",
  "configured-limits": "the configuration gives the limits",
};

/** The names of the steps in their list. */
const places: Readonly<Record<StepName, string>> = {
  mode: "mode off",
  "policy-rule-deny": "deny entries of policy rules",
  "policy-rule-allow": "allow entries of policy rules",
  "configured-deny": "deny list of the configuration",
  "configured-allow": "allow list of the configuration",
  "missing-key": "missing key part",
  ban: "ban",
  "key-rule-block": "key rule block",
  "key-rule-allow": "key rule allow",
  "key-rule-limits": "limits of a key rule",
  "policy-rule-overrides": "overrides of policy rules",
  "configured-overrides": "overrides of the configuration",
  "policy-rule-limits": "limits of a policy rule",
  "configured-limits": "limits of the configuration",
};

/** The sources of the limits, as the heading of the limits names them. */
const givers: Readonly<Record<LimitsStep, string>> = {
  "key-rule-limits": "a rule of the key",
  "policy-rule-overrides": "an override of a policy rule",
  "configured-overrides": "an override of the configuration",
  "policy-rule-limits": "a policy rule",
  "configured-limits": "the configuration",
};

const placeText = (step: StepName): string => places[step];

/** The rule and the entry, counted from 1 as people do; "" without either. */
function sourceText({ rule, entry }: Pick<ExplainedStep, "rule" | "entry">): string {
  const parts = [...(rule === null ? [] : [`rule ${rule}`]), ...(entry === null ? [] : [`entry ${entry + 1}`])];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}

const stepColumns = 34;

function stepLine(step: ExplainedStep, index: number): string {
  const number = String(index + 1).padStart(2);
  const place = placeText(step.step).padEnd(stepColumns);
  if (step.decides) return `${number}. ${place} decides${sourceText(step)}`;
  if (step.matches === null) return `${number}. ${place} not known`;
  return `${number}. ${place} ${step.matches ? `matches${sourceText(step)}` : "no match"}`;
}

const limitLines = ({ limits }: Explained): string[] =>
  limits.map(({ name, sentence, remaining, capacity }) =>
    sentence === null
      ? `${name}: ${remaining} of ${capacity} remain in this isolate's estimate.`
      : `${name}: ${sentence}`,
  );

const stateTexts: Readonly<Record<ExplainedRule["state"], string>> = {
  "in-effect": "",
  pending: "not in effect yet, ",
  orphan: "without effect, ",
};

function ruleLine({ id, kind, expiresInMs, state, actor, note }: ExplainedRule): string {
  const end = expiresInMs === null ? "no expiry" : `expires in ${waitText(expiresInMs)}`;
  const author = actor === null ? "" : `, by ${actor}`;
  const reason = note === null ? "" : `: ${note}`;
  return `${kind} (rule ${id}), ${stateTexts[state]}${end}${author}${reason}`;
}

function openLines({ bannedForMs, reservations, slices }: Explained): string[] {
  return [
    ...(bannedForMs === 0 ? [] : [`A ban, which ends in ${waitText(bannedForMs)}.`]),
    ...unitLines("reservation", "reservations", reservations),
    ...unitLines("slice lent to an isolate", "slices lent to isolates", slices),
  ];
}

function unitLines(one: string, several: string, open: ExplainedUnits | null): string[] {
  if (open === null || open.count === 0) return [];
  const { count, units, nextEndInMs } = open;
  const named = count === 1 ? `1 ${one}` : `${count} ${several}`;
  const end = nextEndInMs === null ? "" : `; the first ends in ${waitText(nextEndInMs)}`;
  return [`${named}, ${units} ${units === 1 ? "unit" : "units"}${end}.`];
}

function versionLines({ versions }: Explained): string[] {
  const { isolate, controlPlane, object, key } = versions;
  const named = [
    ["this isolate", isolate],
    ["control plane", controlPlane],
    ["object of the key", object],
    ["rules of the key", key],
  ] as const;
  return named.flatMap(([name, version]) =>
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
