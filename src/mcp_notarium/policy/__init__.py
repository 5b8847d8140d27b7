"""What an agent may see and do, as the person has set it: values, their text form, judgements. Pure."""
