/** The states of a part of a page that has nothing to show: loading, empty, or failed. */
import type { ComponentChildren } from "preact";

/** @param what the thing that is loaded, such as "the policies" */
export const Loading = ({ what }: { readonly what: string }) => (
  <p class="notice" role="status">
    Loading {what} …
  </p>
);

export const Empty = ({ children }: { readonly children: ComponentChildren }) => (
  <p class="notice">{children}</p>
);

export const Failure = ({
  problem,
  onRetry,
}: {
  readonly problem: Error;
  readonly onRetry?: () => void;
}) => (
  <div class="notice problem" role="alert">
    <p>{problem.message}</p>
    {onRetry !== undefined && (
      <button type="button" onClick={onRetry}>
        Try again
      </button>
    )}
  </div>
);
