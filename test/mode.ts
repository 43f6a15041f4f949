/** `npm run test:full` runs the long versions of tests, and `npm test` the short ones. */

declare global {
  interface ImportMeta {
    /** Set by vitest, absent in plain Node. */
    readonly env?: { readonly MODE: string; readonly HEADGATE_FEW_STORIES?: string };
  }
}

/** Whether vitest runs with `--mode full`. */
export const isFull = import.meta.env?.MODE === "full";

/** Whether a run may take as long as it needs. `.ci/run` has 15 minutes, and sets the variable. */
export const hasTime = isFull && import.meta.env?.HEADGATE_FEW_STORIES === undefined;
