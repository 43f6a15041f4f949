/** Watches a few small files for changes of their contents. */
import { readFileSync } from "node:fs";

export interface Watch {
  close(): void;
}

const pollMs = 200;
/**
 * Not shorter than the time within which a Durable Object writes spends: they are stored before an edit restarts the
 * Worker.
 */
const quietMs = 1_000;

/**
 * Calls `changed` after the contents of a file have changed and have then stayed unchanged for `quietMs`. It compares
 * contents, because editors replace files by renaming others, and a deleted file may come back.
 */
export function watchFiles(files: readonly string[], changed: () => void): Watch {
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

/** The contents of a file; null if it is missing or unreadable. */
function textOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}
