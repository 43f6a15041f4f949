/** Code that is loaded when a component first needs it, so that the first view appears early. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

interface Lazy<Code> {
  /** Null until it is loaded. */
  readonly code: Code | null;
  readonly hasFailed: boolean;
}

/** Returns a hook. All components that use it share the code, and one that is shown after a failure tries again. */
export function lazy<Code>(load: () => Promise<Code>): () => Lazy<Code> {
  const state = signal<Lazy<Code>>({ code: null, hasFailed: false });
  return function useLazy() {
    useEffect(() => {
      if (state.peek().code !== null) return;
      state.value = { code: null, hasFailed: false };
      load().then(
        (code) => (state.value = { code, hasFailed: false }),
        () => (state.value = { code: null, hasFailed: true }),
      );
    }, []);
    return state.value;
  };
}
