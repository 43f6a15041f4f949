/** Shows exactly what a rollback changes, and asks for its confirmation. */
import { useEffect, useState } from "preact/hooks";
import type { AuditEntry, RollbackProgress } from "../api/answers.ts";
import type { Term } from "../api/rules.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { Dialog, Meanwhile, NoteField } from "../parts/dialog.tsx";
import { Failure, Loading } from "../parts/notice.tsx";
import { numberText } from "../parts/text.ts";
import { second } from "../parts/count-down.tsx";
import { navigate } from "../shell/route.ts";
import { showToast } from "../shell/toasts.tsx";
import { LastDayOfSteps } from "../what-if/of-dialogs.tsx";
import { type LoadedEntries, mostReached } from "./loaded-entries.ts";
import { concernedBy, rollbackPlan, type RollbackPlan } from "./history.ts";
import { placeText, stateText } from "../parts/rule-text.ts";
import { readChanges } from "../api/changes.ts";
import { call, read } from "../api/client.ts";

interface RollbackDialogProps {
  readonly to: number;
  readonly loaded: LoadedEntries;
  readonly onClose: () => void;
}

/** The rules that a rollback changes are known when all entries after `to` are loaded. */
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
  const [progress, setProgress] = useState<RollbackProgress | null>(null);
  const [opened] = useState(() => loaded.newest.peek());
  const entries = loaded.all.value ?? [];
  const plan = rollbackPlan(entries, to, second.value);
  const isUnknown = to > loaded.newest.value || (to > 0 && isMissing(entries, to));
  const confirm = async (): Promise<void> => {
    const shown = loaded.newest.peek();
    await loaded.loadNewer();
    if (loaded.newest.peek() !== shown) {
      throw new Error(
        "Nothing was rolled back, because there is a newer change. The list includes it now. Check it and confirm again.",
      );
    }
    await rollBack(to, term.note, setProgress);
    await loaded.loadNewer();
    const last = loaded.newest.peek();
    const run = (): Promise<void> => undoRollback(shown, last, loaded);
    const text = `Rolled back to ${stateName(to)}.`;
    showToast({ text, action: { label: "Undo", run } });
  };
  return (
    <Dialog
      title={`Roll back to ${stateName(to)}`}
      confirm="Roll back"
      isDangerous
      isIncomplete={isUnknown || plan.steps.length === 0}
      onConfirm={confirm}
      onClose={onClose}
    >
      {isUnknown ? <p class="warning">The audit log has no entry {to}.</p> : <Steps plan={plan} />}
      <Meanwhile
        entries={entries.filter(({ seq }) => seq > opened)}
        intro="While this dialog was open, and included above:"
      />
      <NoteField term={term} onChange={setTerm} />
      <p class="hint">
        A rollback changes rules only: no usage, and no configuration. It is recorded in the audit log, and another
        rollback undoes it.
      </p>
      {progress !== null && <Progress progress={progress} />}
      {!isUnknown && <LastDayOfSteps steps={plan.steps} />}
    </Dialog>
  );
}

const Progress = ({ progress }: { readonly progress: RollbackProgress }) => (
  <p role="status">
    {numberText(progress.examined)} of {numberText(progress.total ?? 0)} rules are as they were. The rollback also
    continues when this page is closed.
  </p>
);

const stateName = (to: number): string =>
  to === 0 ? "the state before the first change" : `the state after entry ${to}`;

/** An entry that is older than the log. The oldest entry of the log can be preceded by none. */
const isMissing = (entries: readonly AuditEntry[], to: number): boolean => {
  const oldest = entries.at(-1)?.seq ?? 0;
  return to < oldest - 1;
};

/** A rollback to the entry before it. If there are later changes, it is shown for confirmation first, since it undoes them too. */
async function undoRollback(to: number, last: number, loaded: LoadedEntries): Promise<void> {
  await loaded.loadNewer();
  if (loaded.newest.peek() === last) {
    await rollBack(to);
    await loaded.loadNewer();
  } else navigate("audit", { to });
}

const titles = {
  remove: "Rules that are removed",
  restore: "Rules that are restored",
  replace: "Rules that are changed",
} as const;

function Steps({ plan: { steps, ended } }: { readonly plan: RollbackPlan }) {
  const kinds = ["remove", "restore", "replace"] as const;
  return (
    <section class="effect" aria-label="Effect">
      {steps.length === 0 ? (
        <p>The rules are already as they were then. Nothing changes.</p>
      ) : (
        <p>
          Concerns <strong>{concernedBy(steps)}</strong>
        </p>
      )}
      {kinds.map((kind) => {
        const own = steps.filter((step) => step.kind === kind);
        if (own.length === 0) return null;
        return (
          <section key={kind}>
            <h3>
              {titles[kind]} ({own.length})
            </h3>
            <ul>
              {own.map((step) => (
                <li key={step.rule.id}>
                  {placeText(step.rule.policy, step.rule.keyId)}: <StepStates step={step} />
                </li>
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

function StepStates({ step }: { readonly step: UndoStep }) {
  const { kind, rule } = step;
  if (kind === "restore") return <ins>{stateText(rule)}</ins>;
  if (kind === "remove") return <del>{stateText(rule)}</del>;
  return (
    <>
      <del>{stateText(rule)}</del> → <ins>{stateText(step.former)}</ins>
    </>
  );
}

const pauseMs = 1_000;

/**
 * Returns all rules to the state after an audit entry, or with 0 to the state before the first entry.
 * @param onProgress called while the rollback continues
 * @throws Error when another rollback has replaced this one
 */
async function rollBack(
  to: number,
  note?: string,
  onProgress: (progress: RollbackProgress) => void = () => undefined,
): Promise<void> {
  const body = { to, ...(note !== undefined && { note }) };
  const { value } = await call<RollbackProgress>("POST", "rollback", { body });
  try {
    let progress = value;
    while (progress.state === "running") {
      onProgress(progress);
      // oxlint-disable-next-line no-await-in-loop -- until the rollback has ended
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      // oxlint-disable-next-line no-await-in-loop
      const { rollback } = await read<{ readonly rollback: RollbackProgress | null }>("rollback");
      if (rollback?.startedAt !== value.startedAt) {
        throw new Error("Another rollback has replaced this one.");
      }
      progress = rollback;
    }
    if (progress.state === "failed") throw new Error("The rules of a policy would be too large.");
  } finally {
    readChanges();
  }
}
