/** The dialogs of the audit: the undo of one entry, and a rollback, which shows exactly what it changes. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { AuditedRule, AuditEntryView, LatestRollback, RollbackView, RulePage } from "../../../admin/wire.ts";
import { readChanges } from "../api/changes.ts";
import { call, queryText, read } from "../api/client.ts";
import { useRead } from "../api/poll.ts";
import { readPolicy, type RuleChange, ruleIn, type Term, undoOfEntries } from "../api/rules.ts";
import { now } from "../clock.ts";
import { explain } from "../keys/known-keys.ts";
import { keyWithout } from "../keys/rules.ts";
import { second } from "../parts/count-down.tsx";
import { Dialog, Effect, MadeFirst, Meanwhile, NoteField } from "../parts/dialog.tsx";
import { Failure, Loading } from "../parts/notice.tsx";
import { changeText, placeText, policyWithout, stateText } from "../parts/rule-text.ts";
import { numberText } from "../parts/text.ts";
import { navigate } from "../shell/route.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDayOfSteps } from "../what-if/of-dialogs.tsx";
import { concernedBy, rollbackPlan, type RollbackPlan, type UndoOption } from "./history.ts";
import { type LoadedEntries, mostReached } from "./loaded-entries.ts";

interface StepProps {
  /** The rule before and after the step. */
  readonly step: RuleChange;
}

interface UndoDialogProps {
  readonly entry: AuditEntryView;
  /**
   * Whether and how the entry can be undone. It changes while the dialog is open, when another operator changes the
   * rule.
   */
  readonly option: UndoOption;
  readonly onClose: () => void;
}

export function UndoDialog({ entry, option, onClose }: UndoDialogProps) {
  const { seq, actor } = entry;
  const step = "step" in option ? option.step : null;
  const send = useMemo(() => undoOfEntries([entry]), [entry]);
  const undo = async (): Promise<void> => {
    const entries = await send();
    showToast({ text: `Undid entry ${seq}.`, undo: undoOfEntries(entries) });
  };
  return (
    <Dialog
      title={`Undo entry ${seq}`}
      confirm="Undo the change"
      isIncomplete={step === null}
      onConfirm={undo}
      onClose={onClose}
    >
      <p>
        {actor} {changeText(entry)}.
      </p>
      {step !== null && <StepEffect step={step} />}
      <div role="status">
        {"obstacle" in option && (
          <p class="warning">This entry can no longer be undone by itself: {option.obstacle}.</p>
        )}
      </div>
      <p class="hint">The undo is an entry of its own in the audit log.</p>
      {step !== null && <LastDayOfSteps steps={[step]} />}
    </Dialog>
  );
}

function StepEffect({ step }: StepProps) {
  const { before, after } = step;
  const rule = ruleIn(step);
  const hasOther = before !== null && after !== null;
  const without = useRead(
    rule === null || hasOther ? null : (abort) => readWithout(rule, abort).catch(() => "without this rule"),
    [rule, hasOther],
  );
  if (rule === null) return null;
  const textOf = (state: AuditedRule | null): string => (state === null ? (without ?? "…") : stateText(state));
  return <Effect concerns={placeText(rule)} now={textOf(before)} next={textOf(after)} />;
}

/** For example "100 per minute, from the configuration". */
async function readWithout(rule: AuditedRule, abort: AbortSignal): Promise<string> {
  const { policy, keyId } = rule;
  if (keyId === null) return policyWithout(await readPolicy(policy, abort), rule);
  const [{ rules }, explanation] = await Promise.all([
    read<RulePage>(`rules${queryText({ policy, id: keyId })}`, abort),
    explain({ policy, id: keyId }, abort),
  ]);
  return keyWithout({ rules, explanation }, rule, now());
}

interface RollbackDialogProps {
  readonly to: number;
  readonly loaded: LoadedEntries;
  readonly onClose: () => void;
}

/** Loads all entries after `to`, because they determine which rules a rollback changes. */
export function RollbackDialog(props: RollbackDialogProps) {
  const { to, loaded } = props;
  const [state, setState] = useState<"loading" | "ready" | "out of reach">("loading");
  const load = (): void => {
    setState("loading");
    loaded.loadTo(to).then(
      (isReached) => setState(isReached ? "ready" : "out of reach"),
      () => null,
    );
  };
  // oxlint-disable-next-line react/exhaustive-deps -- the entries stay the same
  useEffect(load, [to]);
  if (state === "ready") return <Preview {...props} />;
  if (state === "out of reach") return <OutOfReach {...props} />;
  const problem = loaded.problem.value;
  return problem === null ? <Loading what="the changes since" /> : <Failure problem={problem} onRetry={load} />;
}

const OutOfReach = ({ to, onClose }: RollbackDialogProps) => (
  <Dialog
    title={`Roll back to ${stateName(to)}`}
    confirm="Roll back"
    isDangerous
    isIncomplete
    onConfirm={() => Promise.resolve()}
    onClose={onClose}
  >
    <p class="warning">
      The log has more than {numberText(mostReached)} newer entries, so the console cannot show what this rollback
      changes. Roll back to a newer entry, or use the admin API.
    </p>
  </Dialog>
);

function Preview({ to, loaded, onClose }: RollbackDialogProps) {
  const [term, setTerm] = useState<Term>({});
  const [progress, setProgress] = useState<RollbackView | null>(null);
  const [opened] = useState(() => loaded.newest.peek());
  const entries = loaded.all.value ?? [];
  const newer = entries.filter(({ seq }) => seq > opened);
  const plan = rollbackPlan(entries, to, second.value);
  // A rollback to the state directly before the oldest entry is possible. Earlier states are unknown.
  const isOlder = to > 0 && to < (entries.at(-1)?.seq ?? 0) - 1;
  const isUnknown = to > loaded.newest.value || isOlder;
  const confirm = async (): Promise<void> => {
    const shown = loaded.newest.peek();
    await loaded.loadNewer();
    if (loaded.newest.peek() !== shown) {
      throw new MadeFirst("Nothing was rolled back, because there is a newer change. The list above includes it.");
    }
    await rollBack(to, term.note, setProgress);
    await loaded.loadNewer();
    const last = loaded.newest.peek();
    showToast({ text: `Rolled back to ${stateName(to)}.`, undo: () => undoRollback(shown, last, loaded) });
  };
  return (
    <Dialog
      title={`Roll back to ${stateName(to)}`}
      confirm="Roll back"
      isDangerous
      isIncomplete={isUnknown || plan.steps.length === 0}
      basis={String(loaded.newest.value)}
      newer={newer}
      onConfirm={confirm}
      onClose={onClose}
    >
      {isUnknown ? <p class="warning">The audit log has no entry {to}.</p> : <Steps plan={plan} />}
      <Meanwhile entries={newer} intro="While this dialog was open, and included above:" />
      <NoteField term={term} onChange={setTerm} />
      <p class="hint">
        A rollback changes rules only: no usage, and no configuration. It is recorded in the audit log, and another
        rollback undoes it.
      </p>
      {progress !== null && (
        <p role="status">
          {numberText(progress.examined)} of {numberText(progress.total ?? 0)} rules are as they were. The rollback also
          continues when this page is closed.
        </p>
      )}
      {!isUnknown && <LastDayOfSteps steps={plan.steps} />}
    </Dialog>
  );
}

const stateName = (to: number): string =>
  to === 0 ? "the state before the first change" : `the state after entry ${to}`;

/**
 * Undoes a rollback by another one, to the entry before it. If there are later changes, a dialog asks first, because it
 * undoes them too.
 */
async function undoRollback(to: number, last: number, loaded: LoadedEntries): Promise<void> {
  await loaded.loadNewer();
  if (loaded.newest.peek() === last) {
    await rollBack(to);
    await loaded.loadNewer();
  } else navigate("audit", { to });
}

const stepKinds: readonly (readonly [title: string, isOfKind: (step: RuleChange) => boolean])[] = [
  ["Rules that are removed", ({ after }) => after === null],
  ["Rules that are restored", ({ before }) => before === null],
  ["Rules that are changed", ({ before, after }) => before !== null && after !== null],
];

function Steps({ plan: { steps, ended } }: { readonly plan: RollbackPlan }) {
  return (
    <section class="effect" aria-label="Effect">
      {steps.length === 0 ? (
        <p>The rules are already as they were then. Nothing changes.</p>
      ) : (
        <p>
          Concerns <strong>{concernedBy(steps)}</strong>
        </p>
      )}
      {stepKinds.map(([title, isOfKind]) => {
        const own = steps.filter(isOfKind);
        if (own.length === 0) return null;
        return (
          <section key={title}>
            <h3>
              {title} ({own.length})
            </h3>
            <ul>
              {own.map((step) => (
                <StepItem key={ruleIn(step)?.id} step={step} />
              ))}
            </ul>
          </section>
        );
      })}
      {ended.length > 0 && (
        <p class="dim">Not restored, because they would have ended by now: {ended.map(stateText).join("; ")}.</p>
      )}
    </section>
  );
}

function StepItem({ step }: StepProps) {
  const { before, after } = step;
  const rule = ruleIn(step);
  return (
    <li>
      {rule !== null && placeText(rule)}: {before !== null && <del>{stateText(before)}</del>}
      {before !== null && after !== null && " → "}
      {after !== null && <ins>{stateText(after)}</ins>}
    </li>
  );
}

const pauseMs = 1_000;

/**
 * Returns all rules to the state after an audit entry, or with 0 to the state before the first entry.
 * @throws Error when another rollback has replaced this one
 */
async function rollBack(to: number, note?: string, onProgress?: (progress: RollbackView) => void): Promise<void> {
  const body = { to, ...(note !== undefined && { note }) };
  const begun = await call<RollbackView>("POST", "rollback", { body });
  try {
    let progress = begun;
    while (progress.state === "running") {
      onProgress?.(progress);
      // oxlint-disable-next-line no-await-in-loop -- until the rollback has ended
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      // oxlint-disable-next-line no-await-in-loop
      const { rollback } = await read<LatestRollback>("rollback");
      if (rollback?.startedAt !== begun.startedAt) throw new Error("Another rollback has replaced this one.");
      progress = rollback;
    }
    if (progress.state === "failed") throw new Error("The rules of a policy would be too large.");
  } finally {
    readChanges();
  }
}
