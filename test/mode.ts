/** `npm run test:full` runs the long versions of tests, and `npm test` the short ones. */

declare global {
  interface ImportMeta {
    /** Set by vitest, absent in plain Node. */
    readonly env?: { readonly MODE: string };
  }
}

/** Whether vitest runs with `--mode full`. */
export const isFull = import.meta.env?.MODE === "full";
