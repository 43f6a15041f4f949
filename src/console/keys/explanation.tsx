/** Explains what would happen to a request of a key now, and why: a sentence, the arithmetic, and the steps of the decision. */
import type { ExplainedLimit, ExplainedStep, Explanation } from "../api/answers.ts";
import { type Column, Table } from "../parts/table.tsx";
import { durationText, limitText, numberText, waitText } from "../parts/text.ts";
import { may } from "../shell/session.ts";
import { showProblem } from "../shell/toasts.tsx";
import { stepTitle } from "./effects.ts";
import type { KeyState } from "./key-state.ts";
import { knownKey, revealKey } from "./known-keys.ts";

export function ExplanationCard(state: KeyState) {
  const { explanation } = state;
  const { allowed, text, nextChangeInMs } = explanation;
  const [outcome = "", ...details] = text;
  return (
    <section class="card explanation" aria-label="Explanation">
      <p class="outcome">
        <strong class={allowed ? "allowed" : "denied"}>{outcome}</strong>{" "}
        {decidingSentences(explanation)}
      </p>
      <p class="hidden" role="status">
        {allowed ? "The next request is allowed" : "The next request is denied"}
      </p>
      <p class="dim">
        {nextChangeInMs === null
          ? "Without further requests, nothing changes."
          : `Without further requests, this changes in ${waitText(nextChangeInMs)}.`}
      </p>
      <Unknown {...state} />
      <OpenUnits {...explanation} />
      <details>
        <summary>Show the arithmetic</summary>
        <Arithmetic limits={explanation.limits} />
      </details>
      <details>
        <summary>Which rule decides</summary>
        <Steps steps={explanation.steps} />
      </details>
      <details>
        <summary>Full explanation</summary>
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a part that scrolls must be reachable by keyboard */}
        <pre tabIndex={0}>{[outcome, ...details].join("\n")}</pre>
      </details>
    </section>
  );
}

/** The arithmetic of the limits that deny, or of the fullest one. */
function decidingSentences({ limits, reason }: Explanation): string {
  if (reason === "allow" || reason === "off" || reason === "deny" || reason === "ban") return "";
  const denying = limits.filter(({ allowed }) => !allowed);
  const fullest = limits.toSorted((one, other) => share(one) - share(other)).slice(0, 1);
  return (denying.length > 0 ? denying : fullest)
    .flatMap(({ sentence }) => sentence ?? [])
    .join(" ");
}

const share = ({ remaining, capacity }: ExplainedLimit): number => remaining / capacity;

function Unknown({ policy, id, explanation, readAgain }: KeyState) {
  if (explanation.isKeyKnown) return null;
  const reveal = async (): Promise<void> => {
    await revealKey(policy.name, policy.key, id);
    readAgain();
  };
  return (
    <p class="row">
      <span class="hint">
        This page has only the id of the key, so entries of lists and overrides are not compared.
      </span>
      {may("reveal") && knownKey(policy.name, id) === null && (
        <>
          <button type="button" onClick={() => void reveal().catch(showProblem)}>
            Show the plain key
          </button>
          <span class="hint">The audit log records it, with your name.</span>
        </>
      )}
    </p>
  );
}

function OpenUnits({
  bannedForMs,
  reservations,
  slices,
}: Pick<Explanation, "bannedForMs" | "reservations" | "slices">) {
  const lines = [
    ...(bannedForMs > 0 ? [`A ban denies the key for ${durationText(bannedForMs)} more.`] : []),
    ...unitsText("open reservations", reservations),
    ...unitsText("slices lent to isolates", slices),
  ];
  if (lines.length === 0) return null;
  return (
    <ul>
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

function unitsText(what: string, open: Explanation["slices"]): readonly string[] {
  if (open === null || open.count === 0) return [];
  const { count, units, nextEndInMs } = open;
  const end = nextEndInMs === null ? "" : `; the first ends in ${waitText(nextEndInMs)}`;
  return [`${numberText(count)} ${what} with ${numberText(units)} units${end}.`];
}

const limitColumns: readonly Column<ExplainedLimit>[] = [
  { title: "Limit", cell: ({ name }) => name },
  { title: "Units", cell: (limit) => limitText(limit) },
  { title: "Strategy", cell: ({ strategy }) => strategy.replaceAll("-", " ") },
  {
    title: "Used",
    cell: ({ used }) => (used === null ? "not known" : numberText(used)),
    isNumber: true,
  },
  { title: "Lent", cell: ({ lentUnits }) => numberText(lentUnits), isNumber: true },
  { title: "Remaining", cell: ({ remaining }) => numberText(remaining), isNumber: true },
  { title: "Capacity", cell: ({ capacity }) => numberText(capacity), isNumber: true },
  {
    title: "Next request fits",
    cell: ({ retryAfterMs }) => inText(retryAfterMs),
    isNumber: true,
  },
  { title: "Full again", cell: ({ resetAfterMs }) => inText(resetAfterMs), isNumber: true },
];

const inText = (waitMs: number | null): string => {
  const text = waitText(waitMs);
  return waitMs === null || waitMs <= 0 ? text : `in ${text}`;
};

const nameOf = ({ name }: ExplainedLimit): string => name;

const Arithmetic = ({ limits }: { readonly limits: readonly ExplainedLimit[] }) => (
  <>
    <ul>
      {limits.map(({ name, sentence }) => (
        <li key={name}>
          <strong>{name}</strong>: {sentence ?? "The object of the key does not answer."}
        </li>
      ))}
    </ul>
    <Table caption="Numbers of each limit" columns={limitColumns} rows={limits} keyOf={nameOf} />
  </>
);

function resultText({ matches, decides, rule, entry }: ExplainedStep): string {
  if (matches === null) return "not known";
  if (!matches) return "no match";
  const source = [
    ...(rule === null ? [] : [`rule ${rule}`]),
    ...(entry === null ? [] : [`entry ${entry + 1}`]),
  ].join(", ");
  return `${decides ? "decides" : "matches"}${source === "" ? "" : ` (${source})`}`;
}

const Steps = ({ steps }: { readonly steps: readonly ExplainedStep[] }) => (
  <>
    <p class="hint">The first step that matches decides.</p>
    <ol class="steps">
      {steps.map((step) => (
        <li key={step.step} class={step.decides ? "decides" : ""}>
          {stepTitle(step.step)}: {resultText(step)}
        </li>
      ))}
    </ol>
  </>
);
