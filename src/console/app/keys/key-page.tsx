/** The page of one key: what would happen to the key now and why, its rules, and the actions of an operator. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { ExplainedLimit, Explanation, PolicyView, RuleView, RulePage } from "../../../admin/wire.ts";
import { useChanges } from "../api/changes.ts";
import { queryText, read } from "../api/client.ts";
import { staleSinceMs, usePolled } from "../api/poll.ts";
import { Empty, Reading } from "../parts/notice.tsx";
import { type Opened, OpenedDialog } from "./dialogs.tsx";
import { KeyRequests } from "./history.tsx";
import { BusiestChildren, Levels } from "./levels.tsx";
import type { KeyState } from "./rules.ts";
import { explainKey, isUnrecorded, keyName, knownKey, revealKey, unrecordedReason } from "./known-keys.ts";
import { hrefOf } from "../shell/route.ts";
import { may } from "../shell/session.ts";
import { CountDown } from "../parts/count-down.tsx";
import { changedAt, ruleText } from "../parts/rule-text.ts";
import { type Column, Table } from "../parts/table.tsx";
import { instantText, limitText, numberText, timeText, waitText } from "../parts/text.ts";
import { showProblem, useOwnChangesInView } from "../shell/toasts.tsx";

const explanationPauseMs = 2_000;
const rulesPauseMs = 5_000;

interface KeyPageProps extends Pick<KeyState, "policy" | "id"> {
  /** The policies directly within that of the key. */
  readonly inside: readonly PolicyView[];
}

export function KeyPage({ policy, id, inside }: KeyPageProps) {
  const explained = usePolled((abort) => explainKey(policy, id, abort), explanationPauseMs);
  const ruled = usePolled(
    (abort) => read<RulePage>(`rules${queryText({ policy: policy.name, id })}`, abort),
    rulesPauseMs,
  );
  useChanges(explained.readAgain);
  useChanges(ruled.readAgain);
  return (
    <>
      <Heading policy={policy.name} id={id} />
      <Reading of={explained} what="the explanation">
        {(explanation) => (
          <Reading of={ruled} what="the explanation">
            {({ rules }) => <Known {...{ policy, id, explanation, rules }} onReveal={explained.readAgain} />}
          </Reading>
        )}
      </Reading>
      {inside.map((child) => (
        <BusiestChildren key={child.name} child={child} id={id} />
      ))}
    </>
  );
}

type KnownProps = KeyState & { readonly onReveal: () => void };

function Known({ onReveal, ...state }: KnownProps) {
  const { levels } = state.explanation;
  const [opened, setOpened] = useState<Opened | null>(null);
  return (
    <>
      <ExplanationCard {...{ ...state, onReveal }} />
      {levels !== undefined && <Levels policy={state.policy.name} levels={levels} />}
      <p>
        <a href={hrefOf("denied", { policy: state.policy.name, id: state.id })}>
          Denials of this key in the last 24 hours
        </a>
      </p>
      <Actions onOpen={setOpened} />
      <RulesOfKey rules={state.rules} onOpen={setOpened} />
      <KeyRequests policy={state.policy} id={state.id} />
      {opened !== null && <OpenedDialog opened={opened} state={state} onClose={() => setOpened(null)} />}
    </>
  );
}

/** Gets the focus when the page of a key is opened. */
function Heading({ policy, id }: { readonly policy: string; readonly id: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <header class="key-heading">
      <h2 ref={heading} tabIndex={-1}>
        Key <span class="id">{keyName(policy, id)}</span>
      </h2>
      <p class="dim">
        Id <span class="id">{id}</span>
      </p>
    </header>
  );
}

const actions = [
  ["boost", "Boost …"],
  ["allow", "Allow without charge …"],
  ["block", "Block …"],
  ["reset", "Reset usage …"],
] as const;

const Actions = ({ onOpen }: { readonly onOpen: (opened: Opened) => void }) => (
  <section class="card" aria-label="Actions">
    <h2>Actions</h2>
    {may("write") ? (
      <div class="row">
        {actions.map(([kind, label]) => (
          <button key={kind} type="button" onClick={() => onOpen({ kind })}>
            {label}
          </button>
        ))}
      </div>
    ) : (
      <p class="hint">Your token can only read. Changes need the right “write”.</p>
    )}
  </section>
);

interface RulesProps {
  readonly rules: readonly RuleView[];
  readonly onOpen: (opened: Opened) => void;
}

const states: Readonly<Record<RuleView["state"], { readonly text: string; readonly color: string }>> = {
  applied: { text: "in effect", color: "allowed" },
  pending: { text: "waits for the object of the key", color: "warning" },
  orphan: { text: "without effect: the policy or KEY_SECRET has changed", color: "denied" },
};

const columns: readonly Column<RuleView>[] = [
  { title: "Rule", cell: (rule) => <span data-rule={rule.id}>{ruleText(rule)}</span> },
  { title: "State", cell: ({ state }) => <span class={states[state].color}>{states[state].text}</span> },
  { title: "Ends", cell: ({ expiresAt }) => <CountDown until={expiresAt} endless="when it is removed" /> },
  {
    title: "By",
    cell: (rule) => {
      const at = changedAt(rule);
      return <span title={at === null ? undefined : instantText(at)}>{rule.actor}</span>;
    },
  },
  { title: "Note", cell: ({ note }) => note ?? "–" },
];

function RulesOfKey({ rules, onOpen }: RulesProps) {
  const place = useOwnChangesInView(rules);
  return (
    <section ref={place} class="card" aria-label="Rules of this key">
      <h2>Rules of this key</h2>
      {rules.length === 0 ? (
        <Empty>No rule. The key has the limits of its policy.</Empty>
      ) : (
        <Table
          caption="Rules of this key"
          columns={may("write") ? [...columns, changesColumn(onOpen)] : columns}
          rows={rules}
          keyOf={({ id }) => id}
        />
      )}
    </section>
  );
}

const changesColumn = (onOpen: RulesProps["onOpen"]): Column<RuleView> => ({
  title: "Change",
  cell: (rule) => (
    <span class="row">
      <button type="button" aria-label={`Extend: ${ruleText(rule)}`} onClick={() => onOpen({ kind: "extend", rule })}>
        Extend …
      </button>
      <button type="button" aria-label={`Remove: ${ruleText(rule)}`} onClick={() => onOpen({ kind: "remove", rule })}>
        Remove …
      </button>
    </span>
  ),
});

/** While the explanation cannot be read again, an older one must not say that the key has room. */
function Outcome({ allowed, lines }: Explanation) {
  const sinceMs = staleSinceMs.value;
  if (sinceMs !== null) {
    return (
      <>
        <p class="outcome">
          <strong class="warning">The state of the key is not known since {timeText(sinceMs)}.</strong>
        </p>
        <p class="dim">Reading it again failed. The page tries again by itself.</p>
      </>
    );
  }
  return (
    <>
      <p class="outcome">
        <strong class={allowed ? "allowed" : "denied"}>{lines.outcome}</strong> {lines.usage}
      </p>
      <p class="hidden" role="status">
        {allowed ? "The next request is allowed" : "The next request is denied"}
      </p>
      <p class="dim">{lines.nextChange}</p>
    </>
  );
}

function ExplanationCard(state: KnownProps) {
  const { lines, limits, steps, text } = state.explanation;
  return (
    <section class="card explanation" aria-label="Explanation">
      <div class="state">
        <Outcome {...state.explanation} />
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
        <Table
          caption="Numbers of each limit"
          columns={limits.some(({ lentUnits }) => lentUnits > 0) ? limitColumns : columnsWithoutLent}
          rows={limits}
          keyOf={({ name }) => name}
        />
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

function Unknown({ policy, id, explanation, onReveal }: KnownProps) {
  if (explanation.isKeyKnown) return null;
  const reveal = (): Promise<void> => revealKey(policy.name, id).then(onReveal, showProblem);
  return (
    <p class="row">
      <span class="hint">
        This page has only the id of the key
        {hasOpenEntries(explanation) && ", so it is not known whether entries of lists and overrides match"}.
      </span>
      {may("reveal") && knownKey(policy.name, id) === null && (
        <>
          <button type="button" onClick={() => void reveal()}>
            Show the plain key
          </button>
          {isUnrecorded(policy.name, id) ? (
            <span class="hint" role="status">
              The plain key is not recorded. {unrecordedReason} If you know the key, type it into “Find a key”.
            </span>
          ) : (
            <span class="hint">The audit log records it, with your name.</span>
          )}
        </>
      )}
    </p>
  );
}

const limitColumns: readonly Column<ExplainedLimit>[] = [
  { title: "Limit", cell: ({ name }) => name },
  { title: "Units", cell: (limit) => limitText(limit) },
  { title: "Strategy", cell: ({ strategy }) => strategy.replaceAll("-", " ") },
  { title: "Used", cell: ({ used }) => (used === null ? "not known" : numberText(used)), isNumber: true },
  { title: "Of these lent", cell: ({ lentUnits }) => numberText(lentUnits), isNumber: true },
  { title: "Remaining", cell: ({ remaining }) => numberText(remaining), isNumber: true },
  { title: "Capacity", cell: ({ capacity }) => numberText(capacity), isNumber: true },
  { title: "Next request fits", cell: ({ retryAfterMs }) => inText(retryAfterMs), isNumber: true },
  { title: "Full again", cell: ({ resetAfterMs }) => inText(resetAfterMs), isNumber: true },
];
const columnsWithoutLent = limitColumns.filter(({ title }) => title !== "Of these lent");

function inText(waitMs: number | null): string {
  const text = waitText(waitMs);
  return waitMs === null || waitMs <= 0 ? text : `in ${text}`;
}
