/** The notices of a section without content: that it loads, is empty, or has failed. */
import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { ConnectionLost, isConnected } from "../api/client.ts";
import type { Polling } from "../api/poll.ts";

/** @param what the thing that is loaded, such as "the policies" */
export const Loading = ({ what }: { readonly what: string }) => (
  <p class="notice" role="status">
    {isConnected.value ? `Loading ${what} …` : `Waiting for a connection, to load ${what} …`}
  </p>
);

interface ReadingProps<Value> {
  readonly of: Pick<Polling<unknown>, "problem" | "readAgain"> & { readonly value: ReadonlySignal<Value | null> };
  /** The thing that is read, such as "the policies". */
  readonly what: string;
  readonly children: (value: Value) => ComponentChildren;
}

/** Shows a value once it is read. Before that, shows that it loads, or why it cannot be read. */
export function Reading<Value>({ of: { value, problem, readAgain }, what, children }: ReadingProps<Value>) {
  if (value.value !== null) return <>{children(value.value)}</>;
  return problem.value === null ? <Loading what={what} /> : <Failure problem={problem.value} onRetry={readAgain} />;
}

export const Empty = ({ children }: { readonly children: ComponentChildren }) => <p class="notice">{children}</p>;

/** Tries again by itself when a lost connection is back. */
export function Failure({ problem, onRetry }: { readonly problem: Error; readonly onRetry?: () => void }) {
  const isBack = isConnected.value && problem instanceof ConnectionLost;
  useEffect(() => {
    if (isBack) onRetry?.();
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- only a connection that is back starts another attempt
  }, [isBack]);
  return (
    <div class="notice problem" role="alert">
      <p>{problem.message}</p>
      {onRetry !== undefined && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
