/** Explains what would happen to a request of a key now, and why: a sentence, the arithmetic, and the steps of the decision. */
import type { ExplainedLimit, Explanation } from "../api/answers.ts";
import { type Column, Table } from "../parts/table.tsx";
import { durationText, limitText, numberText, waitText } from "../parts/text.ts";
import { may } from "../shell/session.ts";
import { showProblem } from "../shell/toasts.tsx";
import { arithmeticLines, totalsText } from "./arithmetic.ts";
import { hasOpenEntries, nextChangeText, stepResult, stepTitle } from "./steps.ts";
import type { KeyState } from "./key-state.ts";
import { knownKey, revealKey } from "./known-keys.ts";

export function ExplanationCard(state: KeyState) {
  const { explanation } = state;
  const { allowed, text } = explanation;
  const [outcome = "", ...details] = text;
  return (
    <section class="card explanation" aria-label="Explanation">
      <div class="state">
        <p class="outcome">
          <strong class={allowed ? "allowed" : "denied"}>{outcome}</strong> {totalsText(explanation)}
        </p>
        <p class="hidden" role="status">
          {allowed ? "The next request is allowed" : "The next request is denied"}
        </p>
        <p class="dim">{nextChangeText(explanation)}</p>
        <Unknown {...state} />
        <OpenUnits {...explanation} />
      </div>
      <details>
        <summary>Show the arithmetic</summary>
        <Arithmetic explanation={explanation} />
      </details>
      <details>
        <summary>Which rule decides</summary>
        <Steps explanation={explanation} />
      </details>
      <details>
        <summary>Full explanation</summary>
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a part that scrolls must be reachable by keyboard */}
        <pre tabIndex={0}>{[outcome, ...details].join("\n")}</pre>
      </details>
    </section>
  );
}

function Unknown({ policy, id, explanation, readAgain }: KeyState) {
  if (explanation.isKeyKnown) return null;
  const reveal = async (): Promise<void> => {
    await revealKey(policy.name, policy.key, id);
    readAgain();
  };
  return (
    <p class="row">
      <span class="hint">
        This page has only the id of the key
        {hasOpenEntries(explanation) && ", so it is not known whether entries of lists and overrides match"}.
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
    ...unitsText("open reservation", reservations),
    ...unitsText("slice", slices, `. ${lentMeaning}`),
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

/** For people who see lent units for the first time. */
const lentMeaning =
  "A slice is lent to an isolate, a running instance of the Worker, which decides requests by it without asking the object of the key. Lent units count as used";

const counted = (number: number, name: string): string => `${numberText(number)} ${name}${number === 1 ? "" : "s"}`;

function unitsText(what: string, open: Explanation["slices"], meaning = ""): readonly string[] {
  if (open === null || open.count === 0) return [];
  const { count, units, nextEndInMs } = open;
  const end = nextEndInMs === null ? "" : `; the first ends in ${waitText(nextEndInMs)}`;
  return [`${counted(count, what)} with ${counted(units, "unit")}${end}${meaning}.`];
}

const lentColumn: Column<ExplainedLimit> = {
  title: "Of these lent",
  cell: ({ lentUnits }) => numberText(lentUnits),
  isNumber: true,
};

/** @param hasLent whether isolates hold units */
const limitColumns = (hasLent: boolean): readonly Column<ExplainedLimit>[] => [
  { title: "Limit", cell: ({ name }) => name },
  { title: "Units", cell: (limit) => limitText(limit) },
  { title: "Strategy", cell: ({ strategy }) => strategy.replaceAll("-", " ") },
  {
    title: "Used",
    cell: ({ used }) => (used === null ? "not known" : numberText(used)),
    isNumber: true,
  },
  ...(hasLent ? [lentColumn] : []),
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

function Arithmetic({ explanation }: { readonly explanation: Explanation }) {
  const { limits } = explanation;
  const lines = arithmeticLines(explanation);
  const hasLent = limits.some(({ lentUnits }) => lentUnits > 0);
  return (
    <>
      <ul class="arithmetic">
        {lines.map(({ name, text }) => (
          <li key={name}>
            <strong>{name}</strong>: {text}
          </li>
        ))}
      </ul>
      <Table caption="Numbers of each limit" columns={limitColumns(hasLent)} rows={limits} keyOf={nameOf} />
    </>
  );
}

const Steps = ({ explanation }: { readonly explanation: Explanation }) => (
  <>
    <p class="hint">The first step that matches decides.</p>
    <ol class="steps">
      {explanation.steps.map((step) => (
        <li key={step.step} class={step.decides ? "decides" : ""}>
          {stepTitle(step.step)}: {stepResult(step, explanation)}
        </li>
      ))}
    </ol>
  </>
);
