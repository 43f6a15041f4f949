/** Reads what a section shows. */
import { useEffect, useState } from "preact/hooks";

interface Delays {
  /** Before the first read. */
  readonly firstMs?: number;
  /** Before later ones: long enough for the next key of somebody who types. */
  readonly laterMs?: number;
}

/**
 * Returns the last value that was read. A failed read and null keep the value before: what surrounds the section is complete
 * without it.
 * @param read null while there is nothing to read
 * @param parameters when one changes, it is read again
 */
export function useRead<Value>(
  read: ((abort: AbortSignal) => Promise<Value | null>) | null,
  parameters: readonly unknown[],
  { firstMs = 0, laterMs = 0 }: Delays = {},
): Value | null {
  const [value, setValue] = useState<Value | null>(null);
  const isFirst = value === null;
  useEffect(() => {
    if (read === null) return undefined;
    const abort = new AbortController();
    const readNow = async (): Promise<void> => {
      try {
        const next = await read(abort.signal);
        if (next !== null && !abort.signal.aborted) setValue(next);
      } catch {
        // The value before stays.
      }
    };
    const timer = setTimeout(() => void readNow(), isFirst ? firstMs : laterMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- the caller lists what the read depends on
  }, parameters);
  return value;
}
