/** Short messages at the edge of the page, such as the result of a change with a button that undoes it. */
import { signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RuleView } from "../../../admin/wire.ts";
import { errorOf } from "../api/client.ts";
import { useAction } from "../parts/action.ts";
import { countOf } from "../parts/text.ts";
import { route } from "./route.ts";
import { operator, session } from "./session.ts";

interface Toast {
  readonly text: string;
  readonly kind?: "success" | "problem" | "news";
  /** The action of a button. When it fails, the toast says why, and the button can be pressed again. */
  readonly undo?: () => Promise<unknown>;
}

interface ShownToast extends Toast {
  readonly id: number;
  /** The key whose page was open when it appeared; null for none. */
  readonly page: string | null;
}

/** The newest first. */
const shown = signal<readonly ShownToast[]>([]);
const mostKept = 6;
const shownMs = 8_000;
/** Long enough to read the message, look at the effect and undo it. */
const shownWithUndoMs = 30_000;
let latestId = 0;

// The next operator of the tab must neither see nor undo what this one did. A call of this one may end after sign-out.
session.subscribe(() => {
  shown.value = [];
});

const keyPage = ({ view, query }: typeof route.value): string | null => {
  const id = query.get("id");
  return view === "keys" && id !== null ? `${query.get("policy")} ${id}` : null;
};

// On the page of another key, Undo would seem to be about that key.
route.subscribe((opened) => {
  const page = keyPage(opened);
  if (page === null) return;
  shown.value = shown.peek().filter((each) => each.undo === undefined || each.page === null || each.page === page);
});

export function showToast(toast: Toast): void {
  latestId += 1;
  shown.value = [{ ...toast, id: latestId, page: keyPage(route.peek()) }, ...shown.value].slice(0, mostKept);
}

export const showProblem = (error: unknown): void => showToast({ text: errorOf(error).message, kind: "problem" });

/**
 * Scrolls a rule that the operator of this tab has made or changed to where no message covers it: `scroll-padding` has
 * room for the messages.
 * @returns the place of the rules, whose elements have the ids of their rules as `data-rule`
 */
export function useOwnChangesInView(rules: readonly RuleView[]): RefObject<HTMLElement | null> {
  const place = useRef<HTMLElement>(null);
  const known = useRef<ReadonlySet<string> | null>(null);
  const revisions = rules.map(({ id, revision }) => `${id} ${revision}`);
  useLayoutEffect(() => {
    const before = known.current;
    known.current = new Set(revisions);
    const changed = rules.find(
      ({ actor }, index) => actor === operator.peek()?.name && before?.has(revisions[index] ?? "") === false,
    );
    if (changed === undefined) return;
    const shownRule = place.current?.querySelector(`[data-rule="${changed.id}"]`);
    shownRule?.closest("tr, li")?.scrollIntoView({ block: "nearest" });
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only another revision of a rule is a change
  }, [revisions.join()]);
  return place;
}

function dismiss(id: number): void {
  shown.value = shown.value.filter((each) => each.id !== id);
}

/** Earlier messages are hidden behind a button, so that messages cover little of the page. Their time runs, too. */
export function Toasts() {
  const [isExpanded, setIsExpanded] = useState(false);
  const mostOpen = matchMedia("(max-width: 30rem)").matches ? 1 : 2;
  const hidden = shown.value.length - mostOpen;
  useEffect(() => {
    if (hidden <= 0) setIsExpanded(false);
  }, [hidden]);
  return (
    <section class={isExpanded ? "toasts expanded" : "toasts"} aria-label="Messages" aria-live="polite">
      {shown.value.map((toast, index) => (
        <ToastBox
          key={toast.id}
          toast={toast}
          isHidden={!isExpanded && index >= mostOpen}
          onDismiss={() => dismiss(toast.id)}
        />
      ))}
      {hidden > 0 && !isExpanded && (
        <button type="button" onClick={() => setIsExpanded(true)}>
          {countOf(hidden, "earlier message")}
        </button>
      )}
    </section>
  );
}

interface ToastProps {
  readonly toast: Toast;
  readonly isHidden: boolean;
  readonly onDismiss: () => void;
}

/** The time stops while the pointer or the focus is on it, and while its action runs. A problem stays until it is dismissed. */
function ToastBox({ toast, isHidden, onDismiss }: ToastProps) {
  const { text, kind = "success", undo } = toast;
  const [isRead, setIsRead] = useState(false);
  const { run, isRunning, problem } = useAction(async () => {
    await undo?.();
    onDismiss();
  });
  useEffect(() => {
    if (isRead || isRunning || kind === "problem") return undefined;
    const timer = setTimeout(onDismiss, undo === undefined ? shownMs : shownWithUndoMs);
    return () => clearTimeout(timer);
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- a new rendering must not start the time again
  }, [isRead, isRunning]);
  return (
    <div
      hidden={isHidden}
      class={`toast ${problem === null ? kind : "problem"}`}
      onPointerEnter={() => setIsRead(true)}
      onPointerLeave={() => setIsRead(false)}
      onFocusCapture={() => setIsRead(true)}
      onBlurCapture={() => setIsRead(false)}
    >
      <div>
        <p>{text}</p>
        {problem !== null && <p>{problem.message}</p>}
      </div>
      {undo !== undefined && (
        <button
          type="button"
          aria-label={`Undo: ${text}`}
          aria-disabled={isRunning}
          onClick={() => !isRunning && void run()}
        >
          Undo
        </button>
      )}
      <button type="button" class="quiet" aria-label={`Dismiss: ${text}`} onClick={onDismiss}>
        ×
      </button>
    </div>
  );
}
