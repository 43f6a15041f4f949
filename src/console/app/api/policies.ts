/** The policies as they are in effect now. */
import type { Policy } from "./answers.ts";
import { read } from "./client.ts";

export const readPolicies = async (abort: AbortSignal): Promise<readonly Policy[]> =>
  (await read<{ readonly policies: readonly Policy[] }>("policies", abort)).policies;
