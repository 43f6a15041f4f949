/** A modal dialog that asks for confirmation of a change. It stays open, with everything that was typed, when the change fails. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiProblem } from "../api/client.ts";
import { showProblem } from "../shell/toasts.tsx";

export interface DialogProps {
  readonly title: string;
  /** The label of the button that makes the change, such as "Block the key". */
  readonly confirm: string;
  readonly isDangerous?: boolean;
  readonly isIncomplete?: boolean;
  /** Makes the change. The dialog closes after success, and shows a failure; a message does if it was closed meanwhile. */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
  /** The fields, and the effect of the change. */
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps) {
  const { title, confirm, isDangerous = false, isIncomplete = false, onClose, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  const [problem, setProblem] = useState<Error | null>(null);
  const [isSending, setIsSending] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    setIsSending(true);
    setProblem(null);
    try {
      await props.onConfirm();
      dialog.current?.close();
    } catch (error) {
      if (dialog.current === null) showProblem(error);
      setProblem(error instanceof Error ? error : new Error(String(error)));
    } finally {
      setIsSending(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby={titleId} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={titleId}>{title}</h2>
        {children}
        <div role="alert">{problem !== null && <ProblemText problem={problem} />}</div>
        <footer>
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class={isDangerous ? "primary danger" : "primary"} disabled={isSending || isIncomplete}>
            {isSending ? "Sending …" : confirm}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

const ProblemText = ({ problem }: { readonly problem: Error }) => (
  <div class="problem">
    <p>{problem.message}</p>
    {problem instanceof ApiProblem && problem.fields.length > 0 && (
      <ul>
        {problem.fields.map(({ field, accepted }) => (
          <li key={field}>
            <code>{field}</code>: expected {accepted}
          </li>
        ))}
      </ul>
    )}
  </div>
);
