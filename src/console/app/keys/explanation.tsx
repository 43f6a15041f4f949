/** Shows what would happen to a request of a key now, and why, in the words of the answer. */
import type { ExplainedLimit, Explanation } from "../api/answers.ts";
import { type Column, Table } from "../parts/table.tsx";
import { limitText, numberText, waitText } from "../parts/text.ts";
import { may } from "../shell/session.ts";
import { showProblem } from "../shell/toasts.tsx";
import type { KeyState } from "./rules.ts";
import { knownKey, revealKey } from "./known-keys.ts";

export function ExplanationCard(state: KeyState) {
  const { allowed, lines, limits, steps, text } = state.explanation;
  return (
    <section class="card explanation" aria-label="Explanation">
      <div class="state">
        <p class="outcome">
          <strong class={allowed ? "allowed" : "denied"}>{lines.outcome}</strong> {lines.usage}
        </p>
        <p class="hidden" role="status">
          {allowed ? "The next request is allowed" : "The next request is denied"}
        </p>
        <p class="dim">{lines.nextChange}</p>
        <Unknown {...state} />
        {lines.open.length > 0 && (
          <ul>
            {lines.open.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
      </div>
      <details>
        <summary>Show the arithmetic</summary>
        <ul class="arithmetic">
          {lines.limits.map((limit) => (
            <li key={limit.name}>
              <strong>{limit.name}</strong>: {limit.text}
            </li>
          ))}
        </ul>
        <Table caption="Numbers of each limit" columns={limitColumns(limits)} rows={limits} keyOf={nameOf} />
      </details>
      <details>
        <summary>Which rule decides</summary>
        <p class="hint">The first step that matches decides.</p>
        <ol class="steps">
          {lines.steps.map((step, index) => (
            <li key={step.name} class={steps[index]?.decides === true ? "decides" : ""}>
              {step.name}: {step.text}
            </li>
          ))}
        </ol>
      </details>
      <details>
        <summary>Full explanation</summary>
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a part that scrolls must be reachable by keyboard */}
        <pre tabIndex={0}>{text.join("\n")}</pre>
      </details>
    </section>
  );
}

/** The results of these steps come from the object of the key. */
const objectSteps = /^(?:ban$|key-rule-)/;

/** Whether entries of lists or overrides could not be compared with the key. */
const hasOpenEntries = ({ steps }: Explanation): boolean =>
  steps.some(({ step, matches }) => matches === null && !objectSteps.test(step));

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

const lentColumn: Column<ExplainedLimit> = {
  title: "Of these lent",
  cell: ({ lentUnits }) => numberText(lentUnits),
  isNumber: true,
};

const limitColumns = (limits: readonly ExplainedLimit[]): readonly Column<ExplainedLimit>[] => [
  { title: "Limit", cell: ({ name }) => name },
  { title: "Units", cell: (limit) => limitText(limit) },
  { title: "Strategy", cell: ({ strategy }) => strategy.replaceAll("-", " ") },
  { title: "Used", cell: ({ used }) => (used === null ? "not known" : numberText(used)), isNumber: true },
  ...(limits.some(({ lentUnits }) => lentUnits > 0) ? [lentColumn] : []),
  { title: "Remaining", cell: ({ remaining }) => numberText(remaining), isNumber: true },
  { title: "Capacity", cell: ({ capacity }) => numberText(capacity), isNumber: true },
  { title: "Next request fits", cell: ({ retryAfterMs }) => inText(retryAfterMs), isNumber: true },
  { title: "Full again", cell: ({ resetAfterMs }) => inText(resetAfterMs), isNumber: true },
];

const inText = (waitMs: number | null): string => {
  const text = waitText(waitMs);
  return waitMs === null || waitMs <= 0 ? text : `in ${text}`;
};

const nameOf = ({ name }: ExplainedLimit): string => name;
