export interface PromptSecretOptions {
  mask?: string;
  clear?: boolean;
}
export declare function promptSecret(message?: string, options?: PromptSecretOptions): string | null;
