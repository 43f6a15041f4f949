/** Watches a few small files for changes of their contents. */
import { readFileSync } from "node:fs";

export interface Watch {
  close(): void;
}

interface Timing {
  readonly pollMs: number;
  /** How long the contents must stay the same before a change is reported. */
  readonly quietMs: number;
}

/**
 * `quietMs` is as long as a Durable Object gathers writes: what was counted before an edit is stored before the edit
 * restarts the Worker.
 */
const timing: Timing = { pollMs: 200, quietMs: 1_000 };

/**
 * Calls `changed` after the contents of a file have changed and stayed the same for a moment. It compares contents,
 * because editors replace files by renaming others, and a deleted file may come back.
 */
export function watchFiles(
  files: readonly string[],
  changed: () => void,
  { pollMs, quietMs }: Timing = timing,
): Watch {
  let reported = contentsOf(files);
  let latest = reported;
  let quietPolls = 0;
  const timer = setInterval(() => {
    const contents = contentsOf(files);
    quietPolls = contents === latest ? quietPolls + 1 : 0;
    latest = contents;
    if (contents === reported || quietPolls * pollMs < quietMs) return;
    reported = contents;
    changed();
  }, pollMs);
  return { close: () => clearInterval(timer) };
}

const contentsOf = (files: readonly string[]): string => JSON.stringify(files.map(textOf));

/** Null for a file that is missing or cannot be read at the moment. */
function textOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}
